import { secrets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { bootstrapToken } from './bootstrap-token.ts';

const namespace = 'kube-system';
const maxRequeueMs = 3_600_000;

/** Deletes expired bootstrap tokens. */
export default Controllers.plugin({
  id: 'controller-token-cleaner',
  declares: { loop: 'tokencleaner' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const secretInformer = informers.forResource(secrets);
    return {
      name: 'tokencleaner',
      isDisabledByDefault: true,
      watches: [
        watch(secretInformer, ({ metadata, type }) =>
          metadata?.namespace === namespace && type === 'bootstrap.kubernetes.io/token' ? [`${namespace}/${metadata.name ?? ''}`] : [],
        ),
      ],
      async reconcile(key, { client }) {
        const secret = secretInformer.get(key);
        const expires = secret && bootstrapToken(secret)?.expires;
        if (secret === undefined || expires === undefined) return;
        const remainingMs = expires - clock.now();
        if (remainingMs > 0) return { requeueAfterMs: Math.min(remainingMs, maxRequeueMs) };
        const { name = '', uid } = secret.metadata ?? {};
        try {
          await client.delete(secrets, { namespace, name }, { preconditions: { ...(uid !== undefined && { uid }) } });
        } catch (error) {
          if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
        }
      },
    };
  },
});
