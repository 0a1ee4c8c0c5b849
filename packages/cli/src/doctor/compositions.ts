import { checkPlan } from '@oarlock/cluster/composition/check-plan';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { readyCompositions, readyComposition } from '@oarlock/cluster/composition/ready-compositions';
import type { Availability } from '@oarlock/kernel/plugin';
import { probePlugin } from '../common/probe-plugin.ts';
import { rootlessProblem } from '../nodes/rootless/rootless-problem.ts';

/** Time in milliseconds for each probe: a daemon under load needs some seconds. */
const probeLimitMs = 10_000;

export interface CompositionResult {
  readonly name: string;
  readonly canRun: boolean;
  /** The plugins that this machine cannot run, and why. */
  readonly reasons: readonly string[];
}

/** Probes the plugins of the ready compositions, as `oarlock up` does. Equal plugins with equal configs are probed once. */
export async function probeCompositions(names: readonly string[] = readyCompositions()): Promise<readonly CompositionResult[]> {
  const probes = new Map<string, Promise<Availability>>();
  const probe = ({ plugin, config }: PlannedPlugin): Promise<Availability> => {
    const key = JSON.stringify([plugin.id, config]);
    const known = probes.get(key) ?? probePlugin(plugin, { config, limitMs: probeLimitMs });
    probes.set(key, known);
    return known;
  };
  const results: CompositionResult[] = [];
  for (const name of names) {
    const planned = await createPlan(await readClusterFile(readyComposition(name) ?? name));
    checkPlan(planned);
    if (planned.file.spec.rootless) {
      const reason = await rootlessProblem(planned.file);
      results.push({ name, canRun: reason === undefined, reasons: reason === undefined ? [] : [reason] });
      continue;
    }
    const reasons = (
      await Promise.all(
        planned.plugins.map(async (plugin) => {
          const availability = await probe(plugin);
          return availability.available ? [] : [`${plugin.name}: ${availability.reason}`];
        }),
      )
    ).flat();
    results.push({ name, canRun: reasons.length === 0, reasons });
  }
  return results;
}
