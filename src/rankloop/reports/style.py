"""The style sheet of the report page: light, dark and print."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #f4f5f7; --card: #ffffff; --ink: #17202c; --soft: #5b6675; --faint: #e3e7ec; --rule: #cdd4dc;
  --treatment: #1f5fd0; --control: #8a6d3b; --good: #14794a; --bad: #c02f2f; --open: #9a6700;
  --good-wash: #e5f4ec; --bad-wash: #fbe9e8; --open-wash: #fdf3dc; --plain-wash: #eaf0fb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0f141b; --card: #18202a; --ink: #e8edf3; --soft: #9aa7b6; --faint: #28323f; --rule: #3a4655;
    --treatment: #6ea8ff; --control: #d9b36c; --good: #4cc38a; --bad: #ff8078; --open: #f0b849;
    --good-wash: #12291f; --bad-wash: #331a1b; --open-wash: #2e2512; --plain-wash: #16243b;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 40px 24px 56px; }
header { margin-bottom: 26px; }
.brand { color: var(--soft); font-size: 13px; letter-spacing: .08em; text-transform: uppercase; }
h1 { font-size: 34px; line-height: 1.15; margin: 4px 0 6px; letter-spacing: -.015em; overflow-wrap: anywhere; }
.sub { color: var(--soft); margin: 0; }
section { background: var(--card); border: 1px solid var(--faint); border-radius: 14px; padding: 24px 28px;
  margin: 0 0 18px; }
h2 { font-size: 14px; font-weight: 600; color: var(--soft); margin: 0 0 6px; }
section:not(.hero):not(.plain) h2::before { content: ""; display: inline-block; width: 9px; height: 9px;
  border-radius: 50%; background: var(--tone); margin-right: 8px; }
section.bad:not(.hero) { border-left: 6px solid var(--tone); }
.headline { font-size: 20px; line-height: 1.35; font-weight: 600; margin: 0 0 12px; letter-spacing: -.005em; }
section p { margin: 0 0 8px; max-width: 78ch; overflow-wrap: anywhere; }
section p:last-child { margin-bottom: 0; }
.hero { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 400px); gap: 28px; align-items: center;
  border-left: 6px solid var(--tone); }
.hero.alone { grid-template-columns: minmax(0, 1fr); }
.hero .headline { font-size: 26px; line-height: 1.25; }
.good { --tone: var(--good); --wash: var(--good-wash); }
.bad { --tone: var(--bad); --wash: var(--bad-wash); }
.open { --tone: var(--open); --wash: var(--open-wash); }
.plain { --tone: var(--treatment); --wash: var(--plain-wash); }
.badge { display: inline-block; color: var(--tone); background: var(--wash); border-radius: 999px; padding: 2px 11px;
  font-size: 13px; font-weight: 600; margin-bottom: 10px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px; margin: 0 0 18px; }
.tile { background: var(--card); border: 1px solid var(--faint); border-radius: 14px; padding: 16px 18px; }
.tile b { display: block; font-size: 25px; line-height: 1.2; letter-spacing: -.01em;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tile .label { color: var(--soft); font-size: 13px; }
.tile .detail { color: var(--soft); font-size: 13px; font-variant-numeric: tabular-nums; }
.tile.treatment b { color: var(--treatment); } .tile.control b { color: var(--control); }
figure { margin: 14px 0 12px; }
.scroll { overflow-x: auto; margin: 14px 0 4px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0 0 6px; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--rule); vertical-align: bottom; }
th, td { text-align: right; padding: 7px 0 7px 14px; }
th:first-child, td:first-child { text-align: left; padding-left: 0; overflow-wrap: anywhere; }
td { border-bottom: 1px solid var(--faint); white-space: nowrap; }
td:first-child { white-space: normal; min-width: 8em; }
tbody tr:last-child td { border-bottom: 0; }
td.mismatch { color: var(--bad); font-weight: 600; }
pre { background: var(--paper); border: 1px solid var(--faint); border-radius: 8px; padding: 10px 14px; margin: 8px 0;
  white-space: pre-wrap; overflow-wrap: anywhere;
  font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { color: var(--soft); font-size: 13px; }
.chart { display: block; width: 100%; height: auto; }
.chart text { font-size: 13px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.chart .item { fill: var(--ink); }
.chart .name { font-weight: 600; }
.chart .name.treatment { fill: var(--treatment); } .chart .name.control { fill: var(--control); }
.chart .value { font-size: 17px; font-weight: 700; }
.grid { stroke: var(--faint); } .axis { stroke: var(--rule); }
.zero { stroke: var(--soft); stroke-dasharray: 3 4; }
.line { fill: none; stroke-width: 2.4; stroke-linejoin: round; stroke-linecap: round; }
.interval { stroke-width: 3; stroke-linecap: round; opacity: .55; }
.line.treatment, .interval.treatment { stroke: var(--treatment); }
.line.control, .interval.control { stroke: var(--control); }
.interval.bad { stroke: var(--bad); }
.band { opacity: .16; } .band.treatment { fill: var(--treatment); } .band.control { fill: var(--control); }
.dot.treatment { fill: var(--treatment); } .dot.control { fill: var(--control); }
.dot.good, .value.good { fill: var(--good) !important; } .dot.bad, .value.bad { fill: var(--bad) !important; }
.dot.open, .value.open { fill: var(--open) !important; }
.range { opacity: .28; } .range.good { fill: var(--good); } .range.bad { fill: var(--bad); }
.range.open { fill: var(--open); }
.bridge { stroke-width: 4; opacity: .45; stroke: var(--treatment); } .bridge.down { stroke: var(--control); }
.bar.treatment { fill: var(--treatment); opacity: .55; } .whisker { stroke: var(--ink); stroke-width: 2; }
.assumed { stroke: var(--soft); stroke-width: 2.5; stroke-dasharray: 5 4; }
@media (max-width: 760px) {
  main { padding: 24px 14px 40px; }
  section { padding: 20px 18px; }
  .hero { grid-template-columns: minmax(0, 1fr); }
  figure { overflow-x: auto; }
  figure .chart { min-width: 640px; }
}
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --faint: #ddd; --rule: #999; --treatment: #1f5fd0;
    --control: #8a6d3b; --good: #14794a; --bad: #c02f2f; --open: #9a6700; }
  body { font-size: 11pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  section, .tile { break-inside: avoid; }
}
"""
