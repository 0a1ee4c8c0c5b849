import { rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { cgroupParent } from './pod-config.ts';
import { removePod } from './pod-sandbox.ts';
import type { SyncPass } from './sync-pass.ts';

/** Removes what the pod's containers left: in the runtime, their logs, their cgroup. */
export async function removeRemains({ record, signal }: SyncPass): Promise<void> {
  const { runtime, node, pod } = record;
  await removePod(record, signal);
  runtime?.images.forget(record.uid);
  node.users.release(record.uid);
  if (runtime?.hollow !== false) return;
  await rm(node.paths.podLogs(pod), { recursive: true, force: true });
  const cgroup = cgroupParent(pod, node.cgroupRoot);
  // the runtime may have removed it, or keep its cgroups elsewhere
  if (cgroup !== undefined) await rmdir(join('/sys/fs/cgroup', cgroup)).catch(() => undefined);
}

/** Ends the graceful deletion of the API object: of this pod, not of another that has its name by now. */
export async function deleteObject({ record, signal, cause }: SyncPass): Promise<void> {
  const { namespace, name, uid, node } = record;
  try {
    await node.client.causedBy(cause).delete(pods, { namespace, name }, { gracePeriodSeconds: 0, preconditions: { uid }, signal });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}
