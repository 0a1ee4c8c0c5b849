import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { anonymous, type Authenticator, type AuthnResult, type Credentials, type Identity } from './authn.ts';

/** Credentials of one sender, and who that is. */
export interface KnownSender {
  readonly title: string;
  readonly credentials: Credentials;
  readonly identity: Identity;
}

export interface AuthnFixture {
  /** Started. */
  readonly authenticator: Authenticator;
  /** At least one, except for whoever lets in those who show nothing. */
  readonly known: readonly KnownSender[];
  /** Credentials that must not let anybody in: expired, of somebody who is gone, signed by another key. */
  readonly wrong: readonly { readonly title: string; readonly credentials: Credentials }[];
  /** What nobody may read in a message or a log: tokens, or the secret parts of them. */
  readonly secrets: readonly string[];
  /** Everything logged so far. */
  readonly logged?: () => readonly string[];
  /** Makes what the authenticator asks (files, the API) fail from now on. Left out: it asks nobody. */
  readonly breakDown?: () => void;
  dispose?(): Promise<void>;
}

export interface AuthnContractOptions {
  /** The authenticator's purpose is to let in senders without credentials, on these paths. They become `system:anonymous` and nobody else. */
  readonly anonymousOn?: readonly string[];
}

/** A request without credentials. */
export const bare = (path = '/api/v1/pods', more: Partial<Credentials> = {}): Credentials => ({
  headers: {},
  path,
  remoteAddress: '192.0.2.7',
  ...more,
});
export const bearer = (bearerToken: string): Credentials =>
  bare('/api/v1/pods', { bearerToken, headers: { authorization: `Bearer ${bearerToken}` } });

const shortest = 8; // letters of a secret that are enough to have leaked it

/** What every authenticator promises. Each test opens a fixture of its own. */
export function authnContract(
  name: string,
  open: () => Promise<AuthnFixture> | AuthnFixture,
  { anonymousOn }: AuthnContractOptions = {},
): void {
  describe(`authn/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: AuthnFixture;
    beforeEach(async () => {
      fixture = await open();
    });
    afterEach(() => fixture.dispose?.());

    const ask = async (credentials: Credentials): Promise<AuthnResult> => fixture.authenticator.authenticate(Object.freeze(credentials));
    const leaks = (text: string) =>
      fixture.secrets.some((secret) => {
        for (let at = 0; at + shortest <= secret.length; at++) if (text.includes(secret.slice(at, at + shortest))) return true;
        return false;
      });
    const refusesToKnow = async (credentials: Credentials, what: string) => {
      const result = await ask(credentials);
      expect(result.outcome, what).not.toBe('authenticated');
      if (result.outcome === 'rejected') expect(leaks(result.because), `${what}: ${result.because}`).toBe(false);
    };

    it('knows its senders, with exactly their names and groups', async () => {
      if (anonymousOn === undefined) expect(fixture.known.length, 'the fixture knows nobody').toBeGreaterThan(0);
      for (const { title, credentials, identity } of fixture.known) {
        const result = await ask(credentials);
        expect(result, title).toMatchObject({ outcome: 'authenticated', identity: { name: identity.name, groups: identity.groups } });
        if (result.outcome === 'authenticated' && identity.uid !== undefined) expect(result.identity.uid, title).toBe(identity.uid);
        if (result.outcome === 'authenticated' && identity.extra !== undefined)
          expect(result.identity.extra, title).toMatchObject(identity.extra);
      }
    });

    if (anonymousOn === undefined) {
      it('abstains when nothing is shown, whatever the path and the headers say', async () => {
        for (const path of ['/', '/healthz', '/api', '/api/v1/namespaces/kube-system/secrets', '/../livez', '']) {
          expect(await ask(bare(path)), path).toEqual({ outcome: 'abstained' });
        }
        const boasting = {
          authorization: 'Basic YWRtaW46YWRtaW4=',
          'x-remote-user': 'admin',
          'x-remote-group': 'system:masters',
          'impersonate-user': 'admin',
          cookie: 'token=admin',
          'x-forwarded-for': '127.0.0.1',
        };
        expect(await ask(bare('/api', { headers: boasting }))).toEqual({ outcome: 'abstained' });
      });
    } else {
      it('makes system:anonymous, and nobody else, of those who show nothing', async () => {
        for (const path of anonymousOn) expect(await ask(bare(path)), path).toEqual({ outcome: 'authenticated', identity: anonymous });
      });

      it('leaves those who show something to the others', async () => {
        for (const path of anonymousOn) expect(await ask({ ...bearer('abc'), path })).toEqual({ outcome: 'abstained' });
      });
    }

    it('does not let in the wrong ones, and says why without their secrets', async () => {
      for (const { title, credentials } of fixture.wrong) await refusesToKnow(credentials, title);
    });

    it('takes malformed tokens calmly', async () => {
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
      for (const token of strange) await refusesToKnow(bearer(token), JSON.stringify(token.slice(0, 40)));
      await fc.assert(
        fc.asyncProperty(
          fc.oneof(fc.string({ unit: 'binary', maxLength: 400 }), fc.stringMatching(/^[\w-]{1,60}(\.[\w-]{0,60}){1,3}$/)),
          async (token) => {
            await refusesToKnow(bearer(token), JSON.stringify(token));
          },
        ),
        { numRuns: 100 },
      );
    });

    it('takes no token that differs from a right one in one place', async () => {
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
          // the last character of a base64url part may hold bits that mean nothing
          if (token.includes('.') && (token[at + 1] ?? '.') === '.') continue;
          const other = token[at] === 'B' ? 'C' : 'B';
          changed.add(`${token.slice(0, at)}${other}${token.slice(at + 1)}`);
        }
        changed.delete(token);
        for (const each of changed) await refusesToKnow(bearer(each), `${title}: ${token.length} letters, changed to ${each.length}`);
      }
    });

    it('answers the same when many ask at once', async () => {
      const asked = [
        ...fixture.known.map(({ credentials }) => credentials),
        ...fixture.wrong.map(({ credentials }) => credentials),
        bare(),
        bearer('nobody'),
        bearer('a.b.c'),
      ];
      const alone: AuthnResult[] = [];
      for (const credentials of asked) alone.push(await ask(credentials));
      const many = Array.from({ length: 40 }, (_, round) => asked.map((__, index) => (index * 7 + round) % asked.length)).flat();
      const together = await Promise.all(many.map((index) => ask(asked[index] ?? bare())));
      for (const [position, index] of many.entries()) expect(together[position]).toEqual(alone[index]);
    });

    it('lets nobody in when what it asks is broken', async (context) => {
      if (fixture.breakDown === undefined) context.skip('it asks nobody');
      fixture.breakDown?.();
      for (const { title, credentials } of fixture.known) {
        let outcome: string;
        try {
          ({ outcome } = await ask(credentials));
        } catch (error) {
          outcome = 'thrown';
          expect(leaks((error as Error).message), title).toBe(false);
        }
        expect(outcome, title).not.toBe('authenticated');
      }
    });

    it('logs no secrets', async (context) => {
      if (fixture.logged === undefined) context.skip('the fixture keeps no log');
      for (const { credentials } of [...fixture.known, ...fixture.wrong]) await ask(credentials);
      for (const line of fixture.logged?.() ?? []) expect(leaks(line), line).toBe(false);
    });
  });
}
