// Before the first paint: the theme that was chosen here. A module would come too late, and the page would flash.
try {
  const chosen = localStorage.getItem("rankloop-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is forbidden here: the system's theme it is.
}
