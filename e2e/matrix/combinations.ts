import type { NetworkName, RuntimeName, StorageName } from '../harness/composition.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { everyCombination } from '../harness/machine.ts';
import { listPlugins, type ListedPlugin } from '../harness/oarlock.ts';

export interface Combination {
  readonly storage: StorageName;
  readonly runtime: RuntimeName;
  /** `none`: simulated pods have no network. */
  readonly network: NetworkName | 'none';
  readonly name: string;
  /** `impossible` follows from the plugins' declarations; `unavailable` from this machine; `on request` rows run if `everyCombination` is true. */
  readonly verdict: 'runs' | 'impossible' | 'unavailable' | 'on request';
  readonly because?: string;
}

const storages: readonly StorageName[] = ['memory', 'embedded', 'etcd'];
const runtimes: readonly RuntimeName[] = ['containerd', 'docker', 'oci', 'process', 'simulated'];
const networks: readonly (NetworkName | 'none')[] = ['bridge', 'calico', 'host', 'none'];

/** Storage x runtime x network, with the availability that `oarlock plugins list` reports. */
export async function combinations(): Promise<readonly Combination[]> {
  const listed = new Map((await listPlugins()).map((plugin) => [plugin.id, plugin]));
  // the suite starts these daemons itself; a plugin's own probe checks for the system's
  const missingComponents = new Map<string, string | undefined>([
    ['storage-etcd', componentMissing.etcd()],
    ['runtime-containerd', await componentMissing.containerd()],
    ['runtime-docker', await componentMissing.docker()],
    // with other programs it runs in other modes, which its own tests cover
    ['runtime-oci', componentMissing.runc()],
  ]);
  const find = (id: string): ListedPlugin | undefined => listed.get(id);
  const all: Combination[] = [];
  for (const storage of storages) {
    for (const runtime of runtimes) {
      for (const network of networks) {
        const plugins = [`storage-${storage}`, `runtime-${runtime}`, ...(network === 'none' ? [] : [`network-${network}`])];
        const name = `${storage} · ${runtime} · ${network}`;
        const because = impossible(find(`runtime-${runtime}`), network === 'none' ? undefined : find(`network-${network}`), network);
        if (because === undefined && network === 'none' && find(`runtime-${runtime}`)?.declares['simulated'] !== true) continue; // a foreign network: not tested here
        if (because !== undefined) {
          all.push({ storage, runtime, network, name, verdict: 'impossible', because });
          continue;
        }
        const reasons = plugins.flatMap((id) => {
          const plugin = find(id);
          if (plugin === undefined) return [`${id} is not installed`];
          const reason = missingComponents.has(id) ? missingComponents.get(id) : plugin.available ? undefined : plugin.because;
          return reason === undefined ? [] : [reason];
        });
        all.push({
          storage,
          runtime,
          network,
          name,
          verdict: reasons.length === 0 ? 'runs' : 'unavailable',
          ...(reasons.length > 0 && { because: reasons.join('; ') }),
        });
      }
    }
  }
  return everyCombination ? all : fewest(all);
}

/** Each pair of compatible plugins is in a row that runs; rows that add no pair run on request. */
function fewest(all: readonly Combination[]): readonly Combination[] {
  const able = all.filter(({ verdict }) => verdict === 'runs');
  const pairsOf = ({ storage, runtime, network }: Combination) => [
    `${storage} ${runtime}`,
    `${runtime} ${network}`,
    `${storage} ${network}`,
  ];
  const open = new Set(able.flatMap(pairsOf));
  const shows = (row: Combination) => pairsOf(row).filter((pair) => open.has(pair)).length;
  const kept = new Set<Combination>();
  while (open.size > 0) {
    const best = able.reduce((one, other) => (shows(other) > shows(one) ? other : one));
    kept.add(best);
    for (const pair of pairsOf(best)) open.delete(pair);
  }
  return all.map((row) =>
    row.verdict !== 'runs' || kept.has(row)
      ? row
      : {
          ...row,
          verdict: 'on request',
          because: 'OARLOCK_MATRIX=all runs it; each pair of it runs in other rows',
        },
  );
}

function impossible(runtime: ListedPlugin | undefined, network: ListedPlugin | undefined, name: string): string | undefined {
  if (runtime === undefined) return undefined;
  if (runtime.declares['simulated'] === true)
    return name === 'none' ? undefined : `pods of ${runtime.id} are simulated: there is no network to connect`;
  if (network?.declares['namespace'] !== 'pod') return undefined;
  const namespaces = runtime.declares['networkNamespaces'];
  if (namespaces === true) return undefined;
  if (namespaces === 'root') return process.getuid?.() === 0 ? undefined : `${runtime.id} gives pods a network namespace for root only`;
  return `${network.id} connects network namespaces, and ${runtime.id} has none`;
}
