import { namespaces } from '@oarlock/api/resources';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { isMirrorPod } from '../pod-util/config-source.ts';
import type { AdmissionRejection } from '../pod-util/admission-rejection.ts';

const enforceLabel = 'pod-security.kubernetes.io/enforce';

/**
 * Rejects a pod in a namespace that enforces the Pod Security Standard `restricted` if the pod's runtime cannot isolate pods from the node,
 * because such a pod could read the cluster's keys. Static pods are exempt: their manifests come from the node's own files.
 * @throws the API server's error if the namespace cannot be read; the pod is then not admitted
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
