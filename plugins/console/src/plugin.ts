import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { optional } from '@oarlock/kernel/slot';
import { Authz } from '@oarlock/spi/authz';
import { Client } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { ConsoleHandler } from './console-handler.ts';
import { MetricsHistory } from './metrics-history.ts';
import { OidcProvider, oidcConfig, type OidcConfig } from './oidc-provider.ts';
import { OidcSignIn } from './oidc-sign-in.ts';
import { PageFiles } from './page-files.ts';
import { SessionAuthenticator } from './session-authenticator.ts';
import { SessionTable } from './session-table.ts';
import { SignInLinks } from './sign-in-links.ts';

const minutes = z.number().positive();

/** Serves the web console below `/console/`, and authenticates its requests by sessions. */
export default Paths.plugin({
  id: 'console',
  config: z
    .strictObject({
      /** A session ends when it was not used for this time. */
      idleMinutes: minutes.max(24 * 60).default(60),
      /** A session ends after this time in any case. */
      sessionMinutes: minutes.max(7 * 24 * 60).default(12 * 60),
      /** A sign-in link is valid for this time, and for one sign-in. */
      linkMinutes: minutes.max(60).default(10),
      maxSessions: z.int().min(1).max(100_000).default(1_000),
      maxSessionsPerUser: z.int().min(1).max(1_000).default(20),
      /** `any`: users sign in with a link, a bearer token or a client certificate. `link`: with a link only. */
      signIn: z.enum(['any', 'link']).default('any'),
      /** Users can also sign in at this OpenID Connect provider, whose ID tokens an authenticator of the composition accepts. */
      oidc: oidcConfig.optional(),
    })
    .refine(({ oidc, signIn }) => oidc === undefined || signIn === 'any', { error: 'requires signIn: any', path: ['oidc'] }),
  // absent for the console of a kubeconfig, whose process has no API server
  needs: { cluster: Cluster, client: optional(Client), authz: Authz },
  create({ config, cluster, client, authz }, { clock, log }) {
    const { maxSessions, maxSessionsPerUser } = config;
    const sessions = new SessionTable({
      idleMs: config.idleMinutes * 60_000,
      lifetimeMs: config.sessionMinutes * 60_000,
      maxSessions,
      maxSessionsPerUser,
      clock,
    });
    const authenticator = new SessionAuthenticator(sessions);
    return new ConsoleHandler({
      sessions,
      links: new SignInLinks(config.linkMinutes * 60_000, clock),
      files: new PageFiles(),
      signIn: config.signIn,
      authenticator,
      ...(config.oidc && { oidc: oidcSignIn(config.oidc, { authenticator, clock, log }) }),
      ...(client && { history: new MetricsHistory({ client, authz, clock, log }) }),
      cluster: { name: cluster.name, version: cluster.version, url: cluster.serverUrl },
      log,
    });
  },
});

/** @throws Error if a file of the configuration cannot be read */
function oidcSignIn(
  config: OidcConfig,
  { authenticator, clock, log }: { readonly authenticator: SessionAuthenticator; readonly clock: Clock; readonly log: Logger },
): OidcSignIn {
  const client = new JsonClient({ url: config.issuerURL, caFile: config.certificateAuthorityFile });
  return new OidcSignIn({
    provider: new OidcProvider({ config, client, clock }),
    clientID: config.clientID,
    name: new URL(config.issuerURL).host,
    clock,
    log,
    authenticate: (credentials) => authenticator.userOf(credentials),
    close: () => client.close(),
  });
}
