import { objectKey } from '@oarlock/api/object';
import { configMaps, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Secret } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const dayMs = 86_400_000;
const trackingConfigMap = { namespace: 'kube-system', name: 'kube-apiserver-legacy-service-account-token-tracking' };
const [lastUsedLabel, invalidSinceLabel] = ['kubernetes.io/legacy-token-last-used', 'kubernetes.io/legacy-token-invalid-since'];
const tokenType = 'kubernetes.io/service-account-token';

/** Parses a date as the start of that day in UTC, in milliseconds since the epoch. Returns undefined if the date is invalid. */
const dayOf = (text = ''): number | undefined => parseTime(`${text}T00:00:00Z`);

/**
 * Cleans up service account tokens that clusters before 1.24 generated as Secrets. Marks a token as invalid after `cleanUpDays` without use, so
 * that an administrator can restore it, and deletes the token after another `cleanUpDays` (KEP-2799).
 */
export default Controllers.plugin({
  id: 'controller-legacy-token-cleaner',
  declares: { loop: 'legacy-serviceaccount-token-cleaner' },
  config: z.strictObject({
    /** Days without use after which a token is marked as invalid, and further days after which it is deleted. */
    cleanUpDays: z.number().int().min(1).max(36_500).default(365),
  }),
  needs: { informers: Informers },
  create({ config, informers }, { clock }) {
    const secretInformer = informers.forResource(secrets);
    const accounts = informers.forResource(serviceAccounts);
    const podInformer = informers.forResource(pods);
    const periodMs = config.cleanUpDays * dayMs;

    /** Returns the time since which all API servers track the use of tokens. */
    const trackedSince = async (client: Client): Promise<number> => {
      try {
        const since = dayOf((await client.get(configMaps, trackingConfigMap)).data?.['since']);
        return since === undefined ? Infinity : since + dayMs; // other API servers may have started a day later
      } catch (error) {
        if (isStatus(error, 'NotFound')) return Infinity;
        throw error;
      }
    };
    /** Returns true if the ServiceAccount lists the Secret in `secrets`, which is the case only for generated tokens. */
    const isGenerated = ({ metadata }: Secret): boolean => {
      const { namespace = '', name, annotations = {} } = metadata ?? {};
      const account = accounts.get(`${namespace}/${annotations['kubernetes.io/service-account.name'] ?? ''}`);
      return (
        account?.metadata?.uid === annotations['kubernetes.io/service-account.uid'] &&
        account?.secrets?.some((each) => each.name === name) === true
      );
    };
    const isMounted = ({ metadata }: Secret): boolean =>
      podInformer
        .list(metadata?.namespace ?? '')
        .some(({ spec }) => spec?.volumes?.some(({ secret }) => secret?.secretName === metadata?.name));
    return {
      name: 'legacy-serviceaccount-token-cleaner',
      watches: [
        watch(secretInformer, (secret) => (secret.type === tokenType ? [objectKey(secret)] : [])),
        watch(accounts, ({ metadata, secrets: named = [] }) => named.map(({ name = '' }) => `${metadata?.namespace ?? ''}/${name}`)),
        // pods are only read, but must have synced
        watch(podInformer, () => []),
      ],
      async reconcile(key, { client }) {
        const secret = secretInformer.get(key);
        if (secret?.type !== tokenType || !isGenerated(secret)) return undefined;
        const { namespace = '', name = '', uid = '', resourceVersion = '', labels = {}, creationTimestamp } = secret.metadata ?? {};
        const lastUsedMs = Math.max(parseTime(creationTimestamp ?? '') ?? 0, dayOf(labels[lastUsedLabel]) ?? 0);
        const invalidSinceMs = dayOf(labels[invalidSinceLabel]);
        const remainingMs = Math.max(lastUsedMs, invalidSinceMs ?? 0) + periodMs - clock.now();
        if (remainingMs > 0) return { requeueAfterMs: Math.min(remainingMs, dayMs) };
        if (isMounted(secret) || (await trackedSince(client)) + periodMs > clock.now()) return { requeueAfterMs: dayMs };
        const today = formatTime(clock.now()).slice(0, 10);
        try {
          if (invalidSinceMs !== undefined) await client.delete(secrets, { namespace, name }, { preconditions: { uid, resourceVersion } });
          else
            await client.patch(secrets, { namespace, name }, 'merge', {
              metadata: { uid, resourceVersion, labels: { [invalidSinceLabel]: today } },
            });
        } catch (error) {
          if (!isStatus(error, 'NotFound')) throw error;
        }
        return undefined;
      },
    };
  },
});
