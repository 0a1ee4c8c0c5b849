import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { anonymous, type Authenticator, type AuthnResult, type Credentials, type Identity } from '../authn.ts';

/** Valid credentials and the user that they authenticate. */
export interface KnownUser {
  readonly title: string;
  readonly credentials: Credentials;
  readonly identity: Identity;
}

/** Access to the authenticator under test, provided by the package of the authenticator. */
export interface AuthnFixture {
  /** The authenticator under test, started. */
  readonly authenticator: Authenticator;
  /** Users with valid credentials: at least one, except for an anonymous authenticator. */
  readonly known: readonly KnownUser[];
  /** Credentials that must be rejected, such as an expired token, a token of a deleted user, or a token signed by another key. */
  readonly invalid: readonly { readonly title: string; readonly credentials: Credentials }[];
  /** Strings that must not appear in results or logs: tokens, or their secret parts. */
  readonly secrets: readonly string[];
  /** Returns all log lines so far. */
  readonly logLines?: () => readonly string[];
  /** Makes every further call to the authenticator's dependencies (files, the API server) fail. Absent if it has no dependencies. */
  readonly failDependencies?: () => void;
  dispose?(): Promise<void>;
}

export interface AuthnContractOptions {
  /** Set for an anonymous authenticator: the paths on which requests without credentials become `system:anonymous`. */
  readonly anonymousOn?: readonly string[];
}

/** Returns the credentials of a request that contains no credentials. */
export const noCredentials = (path = '/api/v1/pods', more: Partial<Credentials> = {}): Credentials => ({
  headers: {},
  path,
  remoteAddress: '192.0.2.7',
  ...more,
});
export const bearerCredentials = (bearerToken: string): Credentials =>
  noCredentials('/api/v1/pods', { bearerToken, headers: { authorization: `Bearer ${bearerToken}` } });

const minLeakedLength = 8; // length of a part of a secret that counts as leaked

/** Declares the tests that every authenticator must pass. Each test opens its own fixture. */
export function authnContract(
  name: string,
  open: () => Promise<AuthnFixture> | AuthnFixture,
  { anonymousOn }: AuthnContractOptions = {},
): void {
  describe(`authn/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: AuthnFixture;
    beforeEach(async () => {
      fixture = await open();
      return () => fixture.dispose?.();
    });

    const authenticate = async (credentials: Credentials): Promise<AuthnResult> =>
      fixture.authenticator.authenticate(Object.freeze(credentials));
    const leaks = (text: string) =>
      fixture.secrets.some((secret) => {
        for (let at = 0; at + minLeakedLength <= secret.length; at++)
          if (text.includes(secret.slice(at, at + minLeakedLength))) return true;
        return false;
      });
    const expectNotAuthenticated = async (credentials: Credentials, what: string) => {
      const result = await authenticate(credentials);
      expect(result.outcome, what).not.toBe('authenticated');
      if (result.outcome === 'rejected') expect(leaks(result.reason), `${what}: ${result.reason}`).toBe(false);
    };

    it('authenticates its users with exactly their names and groups', async () => {
      if (anonymousOn === undefined) expect(fixture.known.length, 'the fixture has no known user').toBeGreaterThan(0);
      for (const { title, credentials, identity } of fixture.known) {
        const result = await authenticate(credentials);
        expect(result, title).toMatchObject({ outcome: 'authenticated', identity: { name: identity.name, groups: identity.groups } });
        if (result.outcome === 'authenticated' && identity.uid !== undefined) expect(result.identity.uid, title).toBe(identity.uid);
        if (result.outcome === 'authenticated' && identity.extra !== undefined)
          expect(result.identity.extra, title).toMatchObject(identity.extra);
      }
    });

    if (anonymousOn === undefined) {
      it('abstains without credentials, for every path and header', async () => {
        for (const path of ['/', '/healthz', '/api', '/api/v1/namespaces/kube-system/secrets', '/../livez', '']) {
          expect(await authenticate(noCredentials(path)), path).toEqual({ outcome: 'abstained' });
        }
        const untrustedHeaders = {
          authorization: 'Basic YWRtaW46YWRtaW4=',
          'x-remote-user': 'admin',
          'x-remote-group': 'system:masters',
          'impersonate-user': 'admin',
          cookie: 'token=admin',
          'x-forwarded-for': '127.0.0.1',
        };
        expect(await authenticate(noCredentials('/api', { headers: untrustedHeaders }))).toEqual({ outcome: 'abstained' });
      });
    } else {
      it('authenticates requests without credentials as system:anonymous', async () => {
        for (const path of anonymousOn)
          expect(await authenticate(noCredentials(path)), path).toEqual({ outcome: 'authenticated', identity: anonymous });
      });

      it('abstains if there are credentials', async () => {
        for (const path of anonymousOn) expect(await authenticate({ ...bearerCredentials('abc'), path })).toEqual({ outcome: 'abstained' });
      });
    }

    it('does not authenticate invalid credentials, and gives a reason without secrets', async () => {
      for (const { title, credentials } of fixture.invalid) await expectNotAuthenticated(credentials, title);
    });

    it('does not authenticate or throw on malformed tokens', async () => {
      const strange = [
        '',
        ' ',
        '.',
        '..',
        '...',
        'a.b.c',
        '\u0000',
        'ü'.repeat(300),
        '%00',
        '{}',
        'null',
        'Bearer x',
        `${'e30'}.${'e30'}.`,
        '-'.repeat(20_000),
        'undefined',
        '__proto__',
        'constructor',
        'a b',
        '\n',
      ];
      for (const token of strange) await expectNotAuthenticated(bearerCredentials(token), JSON.stringify(token.slice(0, 40)));
      await fc.assert(
        fc.asyncProperty(
          fc.oneof(fc.string({ unit: 'binary', maxLength: 400 }), fc.stringMatching(/^[\w-]{1,60}(\.[\w-]{0,60}){1,3}$/)),
          async (token) => {
            await expectNotAuthenticated(bearerCredentials(token), JSON.stringify(token));
          },
        ),
        { numRuns: 100 },
      );
    });

    it('does not authenticate a token that differs from a valid one in one place', async () => {
      for (const { title, credentials } of fixture.known) {
        const token = credentials.bearerToken;
        if (token === undefined || credentials.certificate !== undefined) continue;
        const changed = new Set([
          token.slice(1),
          token.slice(0, -1),
          `${token}A`,
          `A${token}`,
          `${token} `,
          ` ${token}`,
          `${token}\n`,
          token.toUpperCase(),
          token.toLowerCase(),
          token.split('').toReversed().join(''),
          `${token}.`,
          `${token},x`,
        ]);
        for (let at = 0; at < token.length; at += Math.max(1, Math.floor(token.length / 40))) {
          // the last character of a base64url part may contain unused bits
          if (token.includes('.') && (token[at + 1] ?? '.') === '.') continue;
          const other = token[at] === 'B' ? 'C' : 'B';
          changed.add(`${token.slice(0, at)}${other}${token.slice(at + 1)}`);
        }
        changed.delete(token);
        for (const each of changed)
          await expectNotAuthenticated(bearerCredentials(each), `${title}: ${token.length} letters, changed to ${each.length}`);
      }
    });

    it('returns the same results for concurrent requests', async () => {
      const all = [
        ...fixture.known.map(({ credentials }) => credentials),
        ...fixture.invalid.map(({ credentials }) => credentials),
        noCredentials(),
        bearerCredentials('unknown'),
        bearerCredentials('a.b.c'),
      ];
      const alone: AuthnResult[] = [];
      for (const credentials of all) alone.push(await authenticate(credentials));
      const many = Array.from({ length: 40 }, (_, round) => all.map((__, index) => (index * 7 + round) % all.length)).flat();
      const together = await Promise.all(many.map((index) => authenticate(all[index] ?? noCredentials())));
      for (const [position, index] of many.entries()) expect(together[position]).toEqual(alone[index]);
    });

    it('does not authenticate anyone when its dependencies fail', async (context) => {
      if (fixture.failDependencies === undefined) context.skip('it has no dependencies');
      fixture.failDependencies?.();
      for (const { title, credentials } of fixture.known) {
        let outcome: string;
        try {
          ({ outcome } = await authenticate(credentials));
        } catch (error) {
          outcome = 'thrown';
          expect(leaks((error as Error).message), title).toBe(false);
        }
        expect(outcome, title).not.toBe('authenticated');
      }
    });

    it('does not log secrets', async (context) => {
      if (fixture.logLines === undefined) context.skip('the fixture keeps no log');
      for (const { credentials } of [...fixture.known, ...fixture.invalid]) await authenticate(credentials);
      for (const line of fixture.logLines?.() ?? []) expect(leaks(line), line).toBe(false);
    });
  });
}
