/** Orders versions newest first (version.CompareKubeAwareVersionStrings): `v10`, `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then others by name. */
export function compareKubeAwareVersions(a: string, b: string): number {
  const [x, y] = [rank(a), rank(b)];
  if (x === undefined || y === undefined) return x === y ? (a < b ? -1 : a > b ? 1 : 0) : x === undefined ? 1 : -1;
  for (const [i, value] of x.entries()) if (value !== y[i]) return (y[i] ?? 0) - value;
  return 0;
}

function rank(version: string): readonly number[] | undefined {
  const found = /^v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?$/.exec(version);
  if (found === null) return undefined;
  const [, major, stage, minor = '0'] = found;
  return [stage === undefined ? 2 : stage === 'beta' ? 1 : 0, Number(major), Number(minor)];
}
