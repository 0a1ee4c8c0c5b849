import { rm } from 'node:fs/promises';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { removePod } from '../../../kuberuntime/pod-sandbox.ts';
import type { SyncPass } from '../../sync-pass.ts';

/** Removes the pod's containers and sandboxes from the runtime, and the pod's logs from the disk. */
export async function removePodResources({ record, signal }: SyncPass): Promise<void> {
  const { runtime, node, pod } = record;
  // the logs go first: as long as the runtime has the pod, a restarted kubelet finds it and repeats the cleanup
  if (runtime?.hollow === false) await rm(node.paths.podLogs(pod), { recursive: true, force: true });
  await removePod(record, signal);
  runtime?.imageManager.forgetPod(record.uid);
  node.userNamespaceManager.release(record.uid);
}

/** Deletes the pod's API object at the end of its graceful deletion. A uid precondition protects a new pod of the same name. */
export async function deleteApiPod({ record, signal, spanContext }: SyncPass): Promise<void> {
  const { namespace, name, uid, node } = record;
  try {
    await node.client
      .withSpanContext(spanContext)
      .delete(pods, { namespace, name }, { gracePeriodSeconds: 0, preconditions: { uid }, signal });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}
