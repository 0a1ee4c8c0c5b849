import { kinds, type Kind } from '@oarlock/api/kinds';

/**
 * The API versions to enable or disable, by a name of `--runtime-config`: `api/all`, `api/ga`, `api/beta`, `api/alpha`, `group/version` or
 * `group/version/resource`.
 */
export type RuntimeConfig = Readonly<Record<string, boolean>>;

type Level = 'ga' | 'beta' | 'alpha';
const stabilityLevelOf = (version: string): Level => (version.includes('alpha') ? 'alpha' : version.includes('beta') ? 'beta' : 'ga');
const groupVersionOf = ({ group, version }: Kind) => (group === '' ? version : `${group}/${version}`);
/** Returns a name without the path prefix that names of the core group may have. */
const withoutPathPrefix = (name: string) => (name === 'api/v1' || name.startsWith('api/v1/') ? name.slice('api/'.length) : name);
const stabilityLevels: ReadonlySet<string> = new Set(['api/all', 'api/ga', 'api/beta', 'api/alpha']);

const names: ReadonlySet<string> = new Set([
  ...stabilityLevels,
  ...kinds.flatMap((kind) => [groupVersionOf(kind), `${groupVersionOf(kind)}/${kind.resource}`]),
]);

/** Returns true if the name can be enabled or disabled by `--runtime-config`. */
export const isServable = (name: string): boolean => names.has(withoutPathPrefix(name));

/**
 * Returns a filter for the kinds to serve: the default kinds, changed by the configuration. The most specific name takes precedence.
 * @throws RangeError if a name is unknown
 */
export function enabledKinds(config: RuntimeConfig = {}): (kind: Kind) => boolean {
  const enabledByName = new Map(Object.entries(config).map(([name, on]) => [withoutPathPrefix(name), on]));
  const unknown = [...enabledByName.keys()].filter((name) => !names.has(name));
  if (unknown.length > 0) throw new RangeError(`unknown api groups ${unknown.join(',')}`);
  return (kind) => {
    const groupVersion = groupVersionOf(kind);
    return (
      enabledByName.get(`${groupVersion}/${kind.resource}`) ??
      enabledByName.get(groupVersion) ??
      enabledByName.get(`api/${stabilityLevelOf(kind.version)}`) ??
      enabledByName.get('api/all') ??
      kind.servedByDefault
    );
  };
}
