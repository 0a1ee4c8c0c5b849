import { timingSafeEqual } from 'node:crypto';
import { secrets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Secret } from '@oarlock/api/types/core-v1';
import { abstained, Authn, authenticated, rejected } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const form = /^([a-z0-9]{6})\.([a-z0-9]{16})$/;
const field = (secret: Secret, key: string): string => Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8');
const same = (a: string, b: string) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));

/** Authenticates bootstrap tokens of new nodes, which are Secrets of type `bootstrap.kubernetes.io/token` in kube-system. */
export default Authn.plugin({
  id: 'authn-bootstrap-token',
  config: z.strictObject({}),
  needs: { client: Client },
  create: ({ client }, { clock }) => ({
    async authenticate({ bearerToken }) {
      const [, id, value] = form.exec(bearerToken ?? '') ?? [];
      if (id === undefined || value === undefined) return abstained;
      let secret: Secret;
      try {
        secret = await client.get(secrets, { namespace: 'kube-system', name: `bootstrap-token-${id}` });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return rejected('the bootstrap token is not known');
        throw error;
      }
      const expires = field(secret, 'expiration');
      const alive =
        secret.type === 'bootstrap.kubernetes.io/token' &&
        secret.metadata?.deletionTimestamp === undefined &&
        field(secret, 'token-id') === id &&
        same(field(secret, 'token-secret'), value) &&
        field(secret, 'usage-bootstrap-authentication') === 'true' &&
        (expires === '' || Date.parse(expires) > clock.now());
      if (!alive) return rejected('the bootstrap token is not valid');
      const extra = field(secret, 'auth-extra-groups')
        .split(',')
        .filter((group) => group.startsWith('system:bootstrappers:'));
      return authenticated({ name: `system:bootstrap:${id}`, groups: ['system:bootstrappers', ...extra, 'system:authenticated'] });
    },
  }),
});
