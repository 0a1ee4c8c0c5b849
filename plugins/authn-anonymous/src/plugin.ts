import { abstained, anonymous, Authn, authenticated } from '@oarlock/spi/authn';
import { z } from 'zod';

/** Lets in whoever shows no credentials, as `system:anonymous`. Stands last; what that user may do is authorization's affair. */
export default Authn.plugin({
  id: 'authn-anonymous',
  config: z.strictObject({
    /** Only these paths (exactly); empty: every path. */
    paths: z.array(z.string().startsWith('/')).default(['/livez', '/readyz', '/healthz', '/version', '/oarlock/v1/ca']),
  }),
  create({ config }) {
    const paths = new Set(config.paths);
    const nobody = authenticated(anonymous);
    return {
      authenticate: ({ bearerToken, certificate, path }) =>
        bearerToken === undefined && certificate === undefined && (paths.size === 0 || paths.has(path)) ? nobody : abstained,
    };
  },
});
