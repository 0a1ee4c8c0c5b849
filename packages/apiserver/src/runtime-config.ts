import { kinds, type Kind } from '@oarlock/api/kinds';

/** Names of `--runtime-config`: `api/all`, `api/ga`, `api/beta`, `api/alpha`, `group/version` and `group/version/resource`. */
export type RuntimeConfig = Readonly<Record<string, boolean>>;

type Level = 'ga' | 'beta' | 'alpha';
const levelOf = (version: string): Level => (version.includes('alpha') ? 'alpha' : version.includes('beta') ? 'beta' : 'ga');
const groupVersionOf = ({ group, version }: Kind) => (group === '' ? version : `${group}/${version}`);
/** The core group is also known by the path under which it is served. */
const plain = (name: string) => (name === 'api/v1' || name.startsWith('api/v1/') ? name.slice('api/'.length) : name);
const sweeping: ReadonlySet<string> = new Set(['api/all', 'api/ga', 'api/beta', 'api/alpha']);

const names: ReadonlySet<string> = new Set([
  ...sweeping,
  ...kinds.flatMap((kind) => [groupVersionOf(kind), `${groupVersionOf(kind)}/${kind.resource}`]),
]);

/** Whether anything is known by this name, so that it can be switched on or off. */
export const isServable = (name: string): boolean => names.has(plain(name));

/**
 * Which kinds a server serves: those that are on by default, as changed by what an administrator says. The more exact name wins.
 * @throws RangeError for a name that nothing is known by
 */
export function enabledKinds(config: RuntimeConfig = {}): (kind: Kind) => boolean {
  const wanted = new Map(Object.entries(config).map(([name, on]) => [plain(name), on]));
  const unknown = [...wanted.keys()].filter((name) => !names.has(name));
  if (unknown.length > 0) throw new RangeError(`unknown api groups ${unknown.join(',')}`);
  return (kind) => {
    const groupVersion = groupVersionOf(kind);
    return (
      wanted.get(`${groupVersion}/${kind.resource}`) ??
      wanted.get(groupVersion) ??
      wanted.get(`api/${levelOf(kind.version)}`) ??
      wanted.get('api/all') ??
      kind.servedByDefault
    );
  };
}
