// Apply the stored theme before the first paint. A module would load too late, and the page would flash.
try {
  const stored = localStorage.getItem("rankloop-theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
} catch {
  // Storage is blocked: use the system theme.
}
