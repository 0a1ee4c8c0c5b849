import { Authn } from '@oarlock/spi/authn';
import { config } from './config.ts';
import { OidcAuthenticator } from './oidc-authenticator.ts';

/** Authenticates ID tokens of OpenID Connect issuers, with the `jwt` section of Kubernetes' AuthenticationConfiguration (KEP-3331). */
export default Authn.plugin({
  id: 'authn-oidc',
  config,
  create: ({ config: { jwt, timeoutSeconds } }, { clock }) => new OidcAuthenticator({ jwt, timeoutSeconds, clock }),
});
