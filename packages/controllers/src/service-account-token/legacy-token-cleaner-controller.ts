import { objectKey } from '@oarlock/api/object';
import { configMaps, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Secret } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const dayMs = 86_400_000;
const tracking = { namespace: 'kube-system', name: 'kube-apiserver-legacy-service-account-token-tracking' };
const [lastUsed, invalidSince] = ['kubernetes.io/legacy-token-last-used', 'kubernetes.io/legacy-token-invalid-since'];
const tokenType = 'kubernetes.io/service-account-token';

/** The beginning of a day; undefined for what names none. */
const dayOf = (text = ''): number | undefined => parseTime(`${text}T00:00:00Z`);

/**
 * Takes back tokens that clusters before 1.24 made in Secrets by themselves and that nobody has used for long: first they are marked, so that they can be had back,
 * and after as long again they are deleted (KEP-2799).
 */
export default Controllers.plugin({
  id: 'controller-legacy-token-cleaner',
  declares: { loop: 'legacy-serviceaccount-token-cleaner' },
  config: z.strictObject({
    /** Days without use until a token is marked, and marked until it is deleted. */
    cleanUpDays: z.number().int().min(1).max(36_500).default(365),
  }),
  needs: { informers: Informers },
  create({ config, informers }, { clock }) {
    const all = informers.of(secrets);
    const accounts = informers.of(serviceAccounts);
    const mounting = informers.of(pods);
    const periodMs = config.cleanUpDays * dayMs;

    /** The day from which on uses are noted for certain. */
    const trackedSince = async (client: Client): Promise<number> => {
      try {
        const since = dayOf((await client.get(configMaps, tracking)).data?.['since']);
        return since === undefined ? Infinity : since + dayMs; // other API servers may have begun a day later
      } catch (error) {
        if (isStatus(error, 'NotFound')) return Infinity;
        throw error;
      }
    };
    /** Whether an account names it, as only those do for which a cluster made it. */
    const isGenerated = ({ metadata }: Secret): boolean => {
      const { namespace = '', name, annotations = {} } = metadata ?? {};
      const account = accounts.get(`${namespace}/${annotations['kubernetes.io/service-account.name'] ?? ''}`);
      return (
        account?.metadata?.uid === annotations['kubernetes.io/service-account.uid'] &&
        account?.secrets?.some((each) => each.name === name) === true
      );
    };
    const isMounted = ({ metadata }: Secret): boolean =>
      mounting
        .list(metadata?.namespace ?? '')
        .some(({ spec }) => spec?.volumes?.some(({ secret }) => secret?.secretName === metadata?.name));
    return {
      name: 'legacy-serviceaccount-token-cleaner',
      watches: [
        watch(all, (secret) => (secret.type === tokenType ? [objectKey(secret)] : [])),
        watch(accounts, ({ metadata, secrets: named = [] }) => named.map(({ name = '' }) => `${metadata?.namespace ?? ''}/${name}`)),
        // so that it is known who mounts what
        watch(mounting, () => []),
      ],
      async reconcile(key, { client }) {
        const secret = all.get(key);
        if (secret?.type !== tokenType || !isGenerated(secret)) return undefined;
        const { namespace = '', name = '', uid = '', resourceVersion = '', labels = {}, creationTimestamp } = secret.metadata ?? {};
        const unused = Math.max(parseTime(creationTimestamp ?? '') ?? 0, dayOf(labels[lastUsed]) ?? 0);
        const marked = dayOf(labels[invalidSince]);
        const left = Math.max(unused, marked ?? 0) + periodMs - clock.now();
        if (left > 0) return { requeueAfterMs: Math.min(left, dayMs) };
        if (isMounted(secret) || (await trackedSince(client)) + periodMs > clock.now()) return { requeueAfterMs: dayMs };
        const today = formatTime(clock.now()).slice(0, 10);
        try {
          if (marked !== undefined) await client.delete(secrets, { namespace, name }, { preconditions: { uid, resourceVersion } });
          else
            await client.patch(secrets, { namespace, name }, 'merge', {
              metadata: { uid, resourceVersion, labels: { [invalidSince]: today } },
            });
        } catch (error) {
          if (!isStatus(error, 'NotFound')) throw error;
        }
        return undefined;
      },
    };
  },
});
