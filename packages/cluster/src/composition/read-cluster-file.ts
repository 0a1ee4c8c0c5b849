import { readFile } from 'node:fs/promises';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { WiringError, type Fault } from '@oarlock/kernel/errors';
import { parseWithFaults, type ClusterFile } from '../cluster-file/cluster-file.ts';
import { sortFaults } from '../cluster-file/sort-faults.ts';
import { readyComposition, readyCompositions } from './ready-compositions.ts';
import { withUpstreamConfigs } from '../cluster-file/upstream-configs.ts';

/**
 * Reads a cluster file and the Kubernetes configuration files that it names. `path` may also be the name of a ready composition, such as
 * `embedded`, if no file has this path.
 * @throws WiringError with every fault of the file (position, path, value and expected value) and, if the file can be parsed, the faults of its
 * plugins
 */
export async function readClusterFile(path: string): Promise<ClusterFile> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    const ready = readyComposition(path);
    if (ready !== undefined && (cause as NodeJS.ErrnoException).code === 'ENOENT') return readClusterFile(ready);
    throw new WiringError(
      [
        {
          code: 'ConfigInvalid',
          message: `${path} cannot be read: ${fileErrorReason(cause)}`,
          remedy: `name an existing file with -f, or one of ${readyCompositions().join(', ')}, or omit -f to use a default composition`,
        },
      ],
      { cause },
    );
  }
  const { file, faults } = parseWithFaults(text, path);
  if (file === undefined || faults.length > 0)
    throw new WiringError(sortFaults([...faults, ...(file === undefined ? [] : await pluginFaults(file))]));
  return withUpstreamConfigs(file);
}

/**
 * Returns the faults of the plugins of a cluster file that has faults of its own. Does not report empty slots, which may follow from the other
 * faults.
 */
async function pluginFaults(file: ClusterFile): Promise<readonly Fault[]> {
  // only faulty files need these modules here
  const [{ createPlan }, { checkPlan }] = await Promise.all([import('./create-plan.ts'), import('./check-plan.ts')]);
  try {
    checkPlan(await createPlan(file));
    return [];
  } catch (error) {
    if (!(error instanceof WiringError)) throw error;
    return error.faults.filter(({ code }) => code !== 'SlotEmpty');
  }
}
