type Labels = Readonly<Record<string, string>>;

/** Returns the sorted keys of the labels that differ. */
export function changedLabels(next: Labels = {}, old: Labels = {}): string[] {
  return [...new Set([...Object.keys(next), ...Object.keys(old)])].filter((label) => next[label] !== old[label]).sort();
}
