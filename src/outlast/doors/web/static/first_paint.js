/* Sets the chosen colour theme before the first paint, so that a dark page does not flash white. */
try {
  const theme = JSON.parse(localStorage.getItem("outlast.theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // as the system
}
