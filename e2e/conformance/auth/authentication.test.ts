import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../../harness/cluster.ts';
import { composition } from '../../harness/composition.ts';
import { Machine } from '../../harness/machine.ts';
import { untilValue } from '../../harness/until.ts';
import { bearer, certificateOf, certificateSignedBy, jsonService, send, whoIs, type JsonService, type Shown } from './sender.ts';

/** All authenticators in one chain, each tested by its own request over HTTPS. */
describe('authentication', () => {
  const machine = Machine.use();
  const services: JsonService[] = [];
  const issuerKeys = generateKeyPair('ES256');
  let cluster: Cluster;
  let issuer: JsonService;
  const is = async (credentials: Shown) => whoIs(cluster.api, credentials);
  /** Returns the user of the session of the console that these credentials begin, or the status code. */
  const inConsole = async (credentials: Shown): Promise<string> => {
    const key = { 'x-oarlock-console': 'k'.repeat(43) };
    const { status, headers } = await send(cluster.api, 'POST', '/console/session', {
      ...credentials,
      headers: { ...credentials.headers, ...key },
    });
    const [cookie = ''] = (headers['set-cookie'] ?? []).map((each) => each.slice(0, each.indexOf(';')));
    return status === 201 ? is({ headers: { cookie, ...key } }) : String(status);
  };
  const basic = (text: string): Shown => ({ headers: { authorization: `Basic ${Buffer.from(text).toString('base64')}` } });

  beforeAll(async () => {
    issuer = await jsonService(async (_, path) =>
      path === '/keys'
        ? { keys: [{ kid: 'one', alg: 'ES256', ...(await exportJWK((await issuerKeys).publicKey)) }] }
        : { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
    );
    const reviews = await jsonService((review) => {
      const { token } = (review as { spec: { token: string } }).spec;
      const user = { username: 'wendy', groups: ['web'] };
      return { status: token === 'of-the-webhook' ? { authenticated: true, user } : { authenticated: false } };
    });
    services.push(issuer, reviews);
    const dir = machine.path('files');
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, 'tokens.csv'), 'of-the-file,tom,7,"devs,ops"\n');
    await writeFile(join(dir, 'passwords.csv'), 'hunter2,paula,8,devs\n');
    const jwt = [
      {
        issuer: { url: issuer.url, audiences: ['oarlock'] },
        claimMappings: { username: { expression: 'claims.email' }, groups: { claim: 'groups', prefix: 'oidc:' } },
        claimValidationRules: [{ expression: 'claims.email_verified', message: 'the address has to be verified' }],
      },
    ];
    cluster = await machine.cluster({
      spec: {
        ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }),
        roles: ['apiserver', 'controllers'],
        paths: ['console'],
        ...{
          authn: [
            { use: 'authn-request-header', config: { allowedNames: ['front-proxy'] } },
            'authn-client-certificate',
            { use: 'authn-static-token', config: { file: join(dir, 'tokens.csv') } },
            { use: 'authn-basic-password', config: { file: join(dir, 'passwords.csv') } },
            'authn-bootstrap-token',
            'authn-service-account',
            { use: 'authn-oidc', config: { jwt } },
            { use: 'authn-webhook', config: { url: `${reviews.url}/` } },
            { use: 'authn-anonymous', config: { paths: ['/version'] } },
          ],
        },
      },
    });
  });
  afterAll(() => {
    for (const each of services) each.close();
  });

  it('authenticates holders of a client certificate of the CA', async () => {
    const { cert, key } = cluster.api.tls;
    expect(await is({ cert, key })).toBe('kubernetes-admin [system:masters system:authenticated]');
    expect(await inConsole({ cert, key })).toBe('kubernetes-admin [system:masters system:authenticated]');
    expect(await is(await certificateOf(cluster.api, 'ada', 'O=devs,CN=ada'))).toBe('ada [devs system:authenticated]');
  });

  it('authenticates tokens and passwords of files', async () => {
    expect(await is(bearer('of-the-file'))).toBe('tom [devs ops system:authenticated]');
    expect(await is(bearer('of-another-file'))).toBe('401');
    expect(await is(basic('paula:hunter2'))).toBe('paula [devs system:authenticated]');
    expect(await is(basic('paula:hunter3'))).toBe('401');
  });

  it('authenticates joining machines until their bootstrap token expires', async () => {
    const { stdout } = await cluster.oarlock('token', 'create');
    const token = /--token (\S+)/.exec(stdout)?.[1] ?? '';
    const id = token.slice(0, 6);
    // a bootstrap token has no permission for self subject reviews; the 403 names its user
    const asked = () => send(cluster.api, 'GET', '/api/v1/namespaces', bearer(token));
    expect((await asked()).body).toContain(`User \\"system:bootstrap:${id}\\" cannot list resource`);
    await cluster.api.json('DELETE', `/api/v1/namespaces/kube-system/secrets/bootstrap-token-${id}`);
    expect((await asked()).status).toBe(401);
  });

  it('authenticates service account tokens for their audience until the account is deleted', async () => {
    const accounts = '/api/v1/namespaces/default/serviceaccounts';
    await cluster.api.renew(accounts, { metadata: { name: 'robot' } });
    const token = async (audiences?: string[]) =>
      (
        await cluster.api.json<{ status: { token: string } }>('POST', `${accounts}/robot/token`, {
          body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { ...(audiences && { audiences }) } },
        })
      ).status.token;
    const robot = 'system:serviceaccount:default:robot [system:serviceaccounts system:serviceaccounts:default system:authenticated]';
    const own = await token();
    expect(await is(bearer(own))).toBe(robot);
    expect(await is(bearer(await token(['vault'])))).toBe('401');
    await cluster.api.json('DELETE', `${accounts}/robot`);
    // results are cached by token hash for at most ten seconds
    await untilValue(
      'the token is rejected',
      () => is(bearer(own)),
      (seen) => seen === '401',
      { timeoutMs: 30_000 },
    );
  });

  it('authenticates users of an OpenID Connect issuer, with claims mapped by CEL', async () => {
    const token = async (claims: object, audience = 'oarlock') =>
      new SignJWT({ email: 'olga@example.com', email_verified: true, groups: ['devs'], ...claims })
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setIssuer(issuer.url)
        .setAudience(audience)
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign((await issuerKeys).privateKey);
    expect(await is(bearer(await token({})))).toBe('olga@example.com [oidc:devs system:authenticated]');
    expect(await is(bearer(await token({ email_verified: false })))).toBe('401');
    expect(await is(bearer(await token({}, 'elsewhere')))).toBe('401');
    expect(await inConsole(bearer(await token({})))).toBe('olga@example.com [oidc:devs system:authenticated]');
    expect(await inConsole(bearer(await token({ email_verified: false })))).toBe('401');
  });

  it('authenticates users through a webhook', async () => {
    expect(await is(bearer('of-the-webhook'))).toBe('wendy [web system:authenticated]');
    expect(await is(bearer('of-no-webhook'))).toBe('401');
  });

  it('accepts user headers only with a certificate of the front-proxy CA', async () => {
    const headers = { 'x-remote-user': 'remo', 'x-remote-group': 'far' };
    const proxy = await certificateSignedBy(join(cluster.dataDir, 'pki', 'front-proxy-ca'), machine.path('proxy'), 'front-proxy');
    expect(await is({ ...proxy, headers })).toBe('remo [far system:authenticated]');
    expect(await is(proxy)).toBe('401');
    // the same name from the cluster CA is a user of that name
    const namesake = await certificateOf(cluster.api, 'front-proxy', 'CN=front-proxy');
    expect(await is({ ...namesake, headers })).toBe('front-proxy [system:authenticated]');
    expect(await is({ ...(await certificateOf(cluster.api, 'eve', 'CN=eve')), headers })).toBe('eve [system:authenticated]');
    expect(await is({ headers })).toBe('401');
  });

  it('allows anonymous access to health and version, and to nothing else', async () => {
    const of = async (path: string, credentials: Shown = {}) => (await send(cluster.api, 'GET', path, credentials)).status;
    expect(await of('/version')).toBe(200);
    expect(await of('/readyz')).toBe(401);
    expect(await of('/api')).toBe(401);
    expect(await of('/version', bearer('wrong'))).toBe(401);
  });

  it('impersonates for users with permission: kubectl auth whoami', async () => {
    const output = await cluster.kubectl.run(['auth', 'whoami', '--as', 'ida', '--as-group', 'devs', '--as-uid', 'u1', '-o', 'json']);
    const { userInfo } = (JSON.parse(output) as { status: { userInfo: object } }).status;
    expect(userInfo).toMatchObject({ username: 'ida', uid: 'u1', groups: ['devs', 'system:authenticated'] });
    expect(await is({ headers: { ...bearer('of-the-file').headers, 'impersonate-user': 'ida' } })).toBe('403');
  });
});
