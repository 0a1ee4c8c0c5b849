import { createHash } from 'node:crypto';
import { abstained, Authn, authenticated, type Identity } from '@oarlock/spi/authn';
import { z } from 'zod';

const user = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'the SHA-256 of a token, in hex'),
  name: z.string().min(1),
  groups: z.array(z.string().min(1)).default([]),
});

/** Authenticates requests by bearer token. The config holds only the hashes of tokens. */
export default Authn.plugin({
  id: '__ID__',
  config: z.strictObject({ users: z.array(user).default([]) }),
  create({ config }) {
    const known = new Map(
      config.users.map(({ sha256, name, groups }): [string, Identity] => [sha256, { name, groups: [...groups, 'system:authenticated'] }]),
    );
    return {
      authenticate({ bearerToken }) {
        if (bearerToken === undefined) return abstained;
        const identity = known.get(createHash('sha256').update(bearerToken).digest('hex'));
        // another authenticator of the chain may know the token
        return identity === undefined ? abstained : authenticated(identity);
      },
    };
  },
});
