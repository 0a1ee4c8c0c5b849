import type { EventRecorder } from '@oarlock/spi/client';

/** Tells of changes of leadership as Events about the Lease, reason `LeaderElection`, as client-go does. */
export function leaderRecorder(
  recorder: EventRecorder | undefined,
  lease: { readonly namespace: string; readonly name: string },
): (message: string) => void {
  return (message) =>
    recorder?.event({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: lease }, 'Normal', 'LeaderElection', message);
}
