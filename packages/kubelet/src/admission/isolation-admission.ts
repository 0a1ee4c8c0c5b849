import { namespaces } from '@oarlock/api/resources';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { isMirrorPod } from '../pod-util/config-source.ts';
import type { AdmissionRejection } from '../pod-util/admission-rejection.ts';

const enforceLabel = 'pod-security.kubernetes.io/enforce';

/**
 * Rejects a pod whose namespace enforces the Pod Security Standard `restricted` if its runtime cannot isolate pods from the node: such a
 * pod could read the keys of the cluster. Static pods are exempt: they come from the node's own files.
 * @throws the API server's error if the namespace cannot be read; the pod is not admitted then
 */
export async function isolationRejection(
  pod: Pod,
  driver: Pick<RuntimeDriver, 'isolation'>,
  { client, signal }: { readonly client: Client; readonly signal: AbortSignal },
): Promise<AdmissionRejection | undefined> {
  const isolation = await driver.isolation?.({ signal });
  if (!isolation || isolation.enforced || isMirrorPod(pod)) return undefined;
  const name = pod.metadata?.namespace ?? '';
  const { metadata } = await client.get<Namespace>(namespaces, { name }, { signal });
  if (metadata?.labels?.[enforceLabel] !== 'restricted') return undefined;
  return {
    reason: 'PodIsolationUnavailable',
    message: `Pod was rejected: namespace ${JSON.stringify(name)} enforces the Pod Security Standard "restricted", and pods on this node run without isolation: ${isolation.reason}`,
  };
}
