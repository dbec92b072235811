// Before anything is drawn, so that a dark page does not flash light.
{
  let chosen = null;
  try { chosen = localStorage.getItem("shoal.theme"); } catch { /* a browser that keeps nothing */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
