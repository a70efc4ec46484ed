"""Named fields of items and contexts become rows of numbers.

>>> from rankloop.features import RankerFeatures, freeze
>>> from rankloop.schema.feature_settings import FeatureSettings
>>> tea, mug = {"price": 3.5, "category": "tea"}, {"price": 12.0, "category": "cups"}
>>> settings = FeatureSettings.of({"items": {"price": "number", "category": {"kind": "category", "categories": 2}}})
>>> features = RankerFeatures(freeze(settings, items=[tea, mug], contexts=[]))
>>> features.items.learn([tea, mug])  # when the event that brings them is applied
>>> features.items.encode([tea, {"category": "mugs"}], "items[{}].fields").shape == (2, features.dim)
True
>>> features.items.names()[:5]
['constant', 'price', 'price missing', 'category=tea', 'category=cups']
"""

from rankloop.features.encoder import Encoder, rename_categories
from rankloop.features.freeze import freeze
from rankloop.features.infer import infer
from rankloop.features.ranker_features import RankerFeatures, context_encoder, item_encoder

__all__ = ["Encoder", "RankerFeatures", "context_encoder", "freeze", "infer", "item_encoder", "rename_categories"]
