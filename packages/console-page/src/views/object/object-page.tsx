export function View() { return <p>…</p>; }
