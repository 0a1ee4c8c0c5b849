import { abstained, anonymous, Authn, authenticated } from '@oarlock/spi/authn';
import { z } from 'zod';

/** Authenticates requests without credentials as `system:anonymous`. Must be the last authenticator. Authorization limits the access of that user. */
export default Authn.plugin({
  id: 'authn-anonymous',
  config: z.strictObject({
    /** The exact paths for which anonymous requests are accepted. An empty list accepts every path. */
    paths: z.array(z.string().startsWith('/')).default(['/livez', '/readyz', '/healthz', '/version', '/oarlock/v1/ca']),
  }),
  create({ config }) {
    const paths = new Set(config.paths);
    const anonymousResult = authenticated(anonymous);
    return {
      authenticate: ({ bearerToken, certificate, frontProxyCertificate, path }) =>
        (bearerToken ?? certificate ?? frontProxyCertificate) === undefined && (paths.size === 0 || paths.has(path))
          ? anonymousResult
          : abstained,
    };
  },
});
