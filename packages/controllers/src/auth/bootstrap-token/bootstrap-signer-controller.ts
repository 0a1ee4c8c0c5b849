import { createHmac } from 'node:crypto';
import { jsonEqual } from '@oarlock/api/json/json';
import { configMaps, secrets } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { bootstrapToken } from './bootstrap-token.ts';

const key = 'kube-public/cluster-info';
const prefix = 'jws-kubeconfig-';

/** Returns a detached JWS (RFC 7515, appendix F) over a kubeconfig, signed with the secret of a bootstrap token. */
export function detachedSignature(content: string, id: string, secret: string): string {
  const header = Buffer.from(JSON.stringify({ alg: 'HS256', kid: id })).toString('base64url');
  const signature = createHmac('sha256', secret)
    .update(`${header}.${Buffer.from(content).toString('base64url')}`)
    .digest('base64url');
  return `${header}..${signature}`;
}

/**
 * Signs the ConfigMap `kube-public/cluster-info` with every bootstrap token that may sign, so that clients with a token can verify the
 * ConfigMap.
 */
export default Controllers.plugin({
  id: 'controller-bootstrap-signer',
  declares: { loop: 'bootstrapsigner' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const configMapInformer = informers.forResource(configMaps);
    const secretInformer = informers.forResource(secrets);
    return {
      name: 'bootstrapsigner',
      isDisabledByDefault: true,
      watches: [
        watch(configMapInformer, ({ metadata }) => (`${metadata?.namespace ?? ''}/${metadata?.name ?? ''}` === key ? [key] : [])),
        watch(secretInformer, ({ metadata, type }) =>
          metadata?.namespace === 'kube-system' && type === 'bootstrap.kubernetes.io/token' ? [key] : [],
        ),
      ],
      async reconcile(_key, { client }) {
        const info = configMapInformer.get(key);
        const content = info?.data?.['kubeconfig'];
        if (info === undefined || content === undefined) return;
        const data: Record<string, string> = Object.fromEntries(
          Object.entries(info.data ?? {}).filter(([name]) => !name.startsWith(prefix)),
        );
        let nextExpiryMs = Infinity;
        for (const secret of secretInformer.list('kube-system')) {
          const token = bootstrapToken(secret);
          if (token === undefined || !token.usedForSigning || (token.expires ?? Infinity) <= clock.now()) continue;
          nextExpiryMs = Math.min(nextExpiryMs, token.expires ?? Infinity);
          data[`${prefix}${token.id}`] = detachedSignature(content, token.id, token.secret);
        }
        if (!jsonEqual(data, info.data ?? {})) await client.update(configMaps, { ...info, data });
        return nextExpiryMs === Infinity ? undefined : { requeueAfterMs: Math.min(nextExpiryMs - clock.now() + 1, 3_600_000) };
      },
    };
  },
});
