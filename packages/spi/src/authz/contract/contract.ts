import { deepFreeze } from '@oarlock/api/object';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Identity } from '../../authn/authn.ts';
import type { Attributes, Authorizer, Decision, NonResourceAttributes, ResourceAttributes } from '../authz.ts';

/** Access to the authorizer under test, provided by the package of the authorizer. */
export interface AuthzFixture {
  /** The authorizer under test, started. */
  readonly authorizer: Authorizer;
  /** Attributes that the authorizer allows: at least one, unless the authorizer only denies. */
  readonly allowed: readonly Attributes[];
  /** Attributes on which the authorizer has no opinion. */
  readonly noOpinion: readonly Attributes[];
  /** Attributes that the authorizer denies. */
  readonly denied?: readonly Attributes[];
  dispose?(): Promise<void>;
}

export const user = (name: string, ...groups: string[]): Identity => ({ name, groups });
/** Returns attributes of a resource request: `ask(user('a'), 'get', 'deployments.apps/scale', 'ns', 'web')`. */
export function resourceAttributes(identity: Identity, verb: string, what: string, namespace = '', name = ''): ResourceAttributes {
  const [full = '', subresource = ''] = what.split('/');
  const [resource = '', ...group] = full.split('.');
  return { kind: 'resource', identity, verb, group: group.join('.'), version: 'v1', resource, subresource, namespace, name };
}
export const pathAttributes = (identity: Identity, verb: string, path: string): NonResourceAttributes => ({
  kind: 'path',
  identity,
  verb,
  path,
});

const unknownUser = user('contract:unknown', 'contract:nothing');
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

/** Declares the tests that every authorizer must pass. */
export function authzContract(name: string, open: () => Promise<AuthzFixture> | AuthzFixture): void {
  describe(`authz/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: AuthzFixture;
    beforeEach(async () => {
      fixture = await open();
      return () => fixture.dispose?.();
    });
    const authorize = async (attributes: Attributes): Promise<Decision> =>
      fixture.authorizer.authorize(deepFreeze(structuredClone(attributes)));
    const describeAttributes = (attributes: Attributes) => JSON.stringify(attributes);

    it('allows its cases, with a reason', async () => {
      expect(fixture.allowed.length + (fixture.denied?.length ?? 0), 'the fixture has no allowed or denied attributes').toBeGreaterThan(0);
      for (const attributes of fixture.allowed) {
        const decision = await authorize(attributes);
        expect(decision, describeAttributes(attributes)).toMatchObject({ decision: 'allow' });
        expect(decision.reason, describeAttributes(attributes)).toMatch(/\w/);
      }
    });

    it('has no opinion on other requests, and denies only its denied cases', async () => {
      for (const attributes of fixture.noOpinion)
        expect((await authorize(attributes)).decision, describeAttributes(attributes)).toBe('no-opinion');
      for (const attributes of fixture.denied ?? []) {
        const decision = await authorize(attributes);
        expect(decision, describeAttributes(attributes)).toMatchObject({ decision: 'deny' });
        expect(decision.reason, describeAttributes(attributes)).toMatch(/\w/);
      }
    });

    it('compares names and groups literally', async () => {
      for (const attributes of fixture.allowed) {
        const { groups } = attributes.identity;
        for (const index of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
          const identity = {
            name: `${attributes.identity.name}x`,
            groups: groups.map((group) => lookalikes(group)[index] ?? '').filter((group) => !groups.includes(group)),
          };
          const requested = { ...attributes, identity };
          expect((await authorize(requested)).decision, describeAttributes(requested)).not.toBe('allow');
        }
      }
    });

    it('does not allow an unknown user anything', async () => {
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
          .map((parts): Attributes => ({ kind: 'resource', identity: unknownUser, ...parts })),
        fc
          .record({
            verb: word,
            path: fc.oneof(
              word.map((text) => `/${text}`),
              fc.webPath(),
            ),
          })
          .map((parts): Attributes => ({ kind: 'path', identity: unknownUser, ...parts })),
      );
      await fc.assert(
        fc.asyncProperty(attributes, async (requested) => {
          expect((await authorize(requested)).decision).not.toBe('allow');
        }),
        { numRuns: 200 },
      );
    });

    it('returns the same decisions for single, repeated and concurrent requests', async () => {
      const requested = [...fixture.allowed, ...fixture.noOpinion, ...(fixture.denied ?? [])];
      const alone: Decision[] = [];
      for (const attributes of requested) alone.push(await authorize(attributes));
      for (const round of [1, 3, 5]) {
        const order = requested.map((_, index) => (index * round) % requested.length);
        const together = await Promise.all(order.map((index) => authorize(requested[index] ?? pathAttributes(unknownUser, 'get', '/'))));
        for (const [position, index] of order.entries())
          expect(together[position], describeAttributes(requested[index] ?? pathAttributes(unknownUser, 'get', '/'))).toEqual(alone[index]);
      }
    });
  });
}
