import type { Pod } from '@oarlock/api/types/core-v1';
import type { CSIDriverSpec } from '@oarlock/api/types/storage-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import { VolumeError, type VolumeRequest } from '@oarlock/spi/volume';

const tokensKey = 'csi.storage.k8s.io/serviceAccount.tokens';

const podInfo = ({ metadata, spec }: Pod, ephemeral: boolean): Strings => ({
  'csi.storage.k8s.io/pod.name': metadata?.name ?? '',
  'csi.storage.k8s.io/pod.namespace': metadata?.namespace ?? '',
  'csi.storage.k8s.io/pod.uid': metadata?.uid ?? '',
  'csi.storage.k8s.io/serviceAccount.name': spec?.serviceAccountName ?? '',
  'csi.storage.k8s.io/ephemeral': String(ephemeral),
});

/** Returns the pod information and service account tokens that a driver's CSIDriver requests. */
export async function podContext(
  { pod, serviceAccountToken }: VolumeRequest,
  spec: CSIDriverSpec | undefined,
  ephemeral: boolean,
): Promise<{ readonly context: Strings; readonly secrets: Strings }> {
  const context = spec?.podInfoOnMount === true ? podInfo(pod, ephemeral) : {};
  const { tokenRequests = [], serviceAccountTokenInSecrets = false } = spec ?? {};
  if (tokenRequests.length === 0) return { context, secrets: {} };
  if (serviceAccountToken === undefined)
    throw new VolumeError('Failed', 'the driver requires service account tokens, and this node does not provide them');
  const tokens = Object.fromEntries(
    await Promise.all(
      tokenRequests.map(async ({ audience, expirationSeconds }) => [
        audience,
        await serviceAccountToken({ audience, ...(expirationSeconds !== undefined && { expirationSeconds }) }),
      ]),
    ),
  ) as Readonly<Record<string, unknown>>;
  const tokenEntry = { [tokensKey]: JSON.stringify(tokens) };
  return serviceAccountTokenInSecrets ? { context, secrets: tokenEntry } : { context: { ...context, ...tokenEntry }, secrets: {} };
}
