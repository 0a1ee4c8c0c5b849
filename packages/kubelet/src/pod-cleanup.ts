import { rm } from 'node:fs/promises';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { removePod } from './pod-sandbox.ts';
import type { SyncPass } from './sync-pass.ts';

/** Removes what the pod's containers left: in the runtime, and their logs. */
export async function removeRemains({ record, signal }: SyncPass): Promise<void> {
  const { runtime, node, pod } = record;
  // while the runtime has something of the pod it is found again after a kill
  if (runtime?.hollow === false) await rm(node.paths.podLogs(pod), { recursive: true, force: true });
  await removePod(record, signal);
  runtime?.images.forget(record.uid);
  node.users.release(record.uid);
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
