import { isAbsolute } from 'node:path';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { placementsOf, sections, type Section } from '@oarlock/cluster/cluster-file/sections';
import { planPlacements } from '@oarlock/cluster/composition/create-plan';
import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { WiringError, type Fault } from '@oarlock/kernel/errors';
import { slotName } from '@oarlock/kernel/slot';
import { Admission } from '@oarlock/spi/admission';
import { Controllers } from '@oarlock/spi/controller';
import { Scheduling } from '@oarlock/spi/scheduling';
import { CommandError, exitCodes } from '../common/command-error.ts';

/** The slots whose plugins can run outside the process of an API server or a kubelet. */
const remoteSlots: ReadonlySet<symbol> = new Set([Admission.token, Controllers.token, Scheduling.token]);
const isPath = (use: string) => use.startsWith('.') || isAbsolute(use);

/** The plugins of a cluster file that can run in an existing cluster. */
export interface RemotePlugins {
  readonly plugins: readonly PlannedPlugin[];
  /** Sentences about plugins that do not run. */
  readonly warnings: readonly string[];
}

/**
 * Loads the plugins of a cluster file that its author develops, which it names by path. Plugins of other slots are reported as warnings.
 * @throws WiringError if a plugin cannot be loaded; CommandError if no plugin remains
 */
export async function loadRemotePlugins(file: ClusterFile): Promise<RemotePlugins> {
  const plugins: PlannedPlugin[] = [];
  const warnings: string[] = [];
  const faults: Fault[] = [];
  const own = (section: Section) => placementsOf(file.spec, section).filter(({ placement }) => isPath(placement.use));
  for (const section of sections) {
    const placements = own(section);
    if (!remoteSlots.has(section.slot.token)) {
      warnings.push(...placements.map(({ placement }) => notRemote(section, placement.use)));
      continue;
    }
    const planned = await planPlacements(file, { section, placements });
    plugins.push(...planned.plugins);
    faults.push(...planned.faults);
  }
  if (faults.length > 0) throw new WiringError(faults);
  if (plugins.length === 0)
    throw new CommandError(
      [...warnings, 'no plugin to run: name files or folders of admission, controller or scheduling plugins, or a file with -f'].join('\n'),
      exitCodes.usage,
    );
  return { plugins, warnings };
}

function notRemote({ slot }: Section, use: string): string {
  const name = slotName(slot.id);
  const remedy =
    name === 'authn' || name === 'authz'
      ? `an API server calls it only with flags of its own; \`oarlock plugins export --webhook ${use}\` writes them`
      : 'run `oarlock dev` without --kubeconfig';
  return `${use} does not run in an existing cluster, because it is ${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name} plugin: ${remedy}`;
}
