import { deepFreeze } from '@oarlock/api/object';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Identity } from './authn.ts';
import type { Attributes, Authorizer, Decision, NonResourceAttributes, ResourceAttributes } from './authz.ts';

export interface AuthzFixture {
  /** Started. */
  readonly authorizer: Authorizer;
  /** What it allows. At least one, unless all it does is deny. */
  readonly allowed: readonly Attributes[];
  /** What it has no opinion on. */
  readonly open: readonly Attributes[];
  /** What it denies for good, whatever the rest of the chain says. */
  readonly denied?: readonly Attributes[];
  dispose?(): Promise<void>;
}

export const user = (name: string, ...groups: string[]): Identity => ({ name, groups });
/** A question about a resource: `ask(user('a'), 'get', 'deployments.apps/scale', 'ns', 'web')`. */
export function ask(identity: Identity, verb: string, what: string, namespace = '', name = ''): ResourceAttributes {
  const [full = '', subresource = ''] = what.split('/');
  const [resource = '', ...group] = full.split('.');
  return { kind: 'resource', identity, verb, group: group.join('.'), version: 'v1', resource, subresource, namespace, name };
}
export const askPath = (identity: Identity, verb: string, path: string): NonResourceAttributes => ({ kind: 'path', identity, verb, path });

const nobody = user('contract:nobody', 'contract:nothing');
const lookalikes = (group: string) => [
  `${group} `,
  ` ${group}`,
  `${group}x`,
  `x${group}`,
  group.toUpperCase(),
  `${group},`,
  `${group}\u0000`,
  group.slice(0, -1),
  `*`,
  '',
];

/** What every authorizer promises. */
export function authzContract(name: string, open: () => Promise<AuthzFixture> | AuthzFixture): void {
  describe(`authz/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: AuthzFixture;
    beforeEach(async () => {
      fixture = await open();
    });
    afterEach(() => fixture.dispose?.());
    const decide = async (attributes: Attributes): Promise<Decision> =>
      fixture.authorizer.authorize(deepFreeze(structuredClone(attributes)));
    const said = (attributes: Attributes) => JSON.stringify(attributes);

    it('allows what it is for, and says on what ground', async () => {
      expect(fixture.allowed.length + (fixture.denied?.length ?? 0), 'the fixture decides nothing').toBeGreaterThan(0);
      for (const attributes of fixture.allowed) {
        const decision = await decide(attributes);
        expect(decision, said(attributes)).toMatchObject({ decision: 'allow' });
        expect(decision.because, said(attributes)).toMatch(/\w/);
      }
    });

    it('has no opinion on the rest, and denies only what it is meant to', async () => {
      for (const attributes of fixture.open) expect((await decide(attributes)).decision, said(attributes)).toBe('no-opinion');
      for (const attributes of fixture.denied ?? []) {
        const decision = await decide(attributes);
        expect(decision, said(attributes)).toMatchObject({ decision: 'deny' });
        expect(decision.because, said(attributes)).toMatch(/\w/);
      }
    });

    it('takes names and groups literally', async () => {
      for (const attributes of fixture.allowed) {
        const { groups } = attributes.identity;
        for (const index of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
          const identity = {
            name: `${attributes.identity.name}x`,
            groups: groups.map((group) => lookalikes(group)[index] ?? '').filter((group) => !groups.includes(group)),
          };
          const asked = { ...attributes, identity };
          expect((await decide(asked)).decision, said(asked)).not.toBe('allow');
        }
      }
    });

    it('allows a stranger nothing, whatever is asked', async () => {
      const word = fc.oneof(
        fc.constantFrom(
          'get',
          'create',
          'pods',
          'secrets',
          'nodes',
          '*',
          '',
          'apps',
          'kube-system',
          'system:masters',
          '__proto__',
          'constructor',
        ),
        fc.string({ maxLength: 12 }),
      );
      const attributes = fc.oneof(
        fc
          .record({ verb: word, group: word, version: word, resource: word, subresource: word, namespace: word, name: word })
          .map((parts): Attributes => ({ kind: 'resource', identity: nobody, ...parts })),
        fc
          .record({
            verb: word,
            path: fc.oneof(
              word.map((text) => `/${text}`),
              fc.webPath(),
            ),
          })
          .map((parts): Attributes => ({ kind: 'path', identity: nobody, ...parts })),
      );
      await fc.assert(
        fc.asyncProperty(attributes, async (asked) => {
          expect((await decide(asked)).decision).not.toBe('allow');
        }),
        { numRuns: 200 },
      );
    });

    it('answers the same alone, again, and when many ask at once', async () => {
      const asked = [...fixture.allowed, ...fixture.open, ...(fixture.denied ?? [])];
      const alone: Decision[] = [];
      for (const attributes of asked) alone.push(await decide(attributes));
      for (const round of [1, 3, 5]) {
        const order = asked.map((_, index) => (index * round) % asked.length);
        const together = await Promise.all(order.map((index) => decide(asked[index] ?? askPath(nobody, 'get', '/'))));
        for (const [position, index] of order.entries())
          expect(together[position], said(asked[index] ?? askPath(nobody, 'get', '/'))).toEqual(alone[index]);
      }
    });
  });
}
