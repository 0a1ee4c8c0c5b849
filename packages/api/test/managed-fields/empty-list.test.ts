import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/object.ts';
import { withNonOmittedFields } from '../../src/schema/non-omitted-fields.ts';
import { schemaOf, type Schema } from '../../src/schema/schema.ts';
import { builtinFieldManager } from './support/builtin-field-manager.ts';

const kind = { group: 'rbac.authorization.k8s.io', version: 'v1', kind: 'ClusterRole' };
const manager = builtinFieldManager(kind);
const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'r' } };
const empty = { ...role, rules: [] };
/** Returns the object as Go stores it: an empty list without omitempty becomes null. */
const stored = (object: KubeObject): KubeObject => ({
  ...withNonOmittedFields(schemaOf(kind) as Schema, object),
  ...('rules' in object && (object as typeof empty).rules.length === 0 && { rules: null }),
});

// structured-merge-diff compares a nil slice as null, which differs from an empty list
describe('an apply of an empty list over a stored null', () => {
  it('conflicts with another manager of the list', () => {
    const live = stored(manager.update(undefined, empty, 'owner', 0));
    expect(live).toMatchObject({ rules: null });
    expect(() => manager.apply(live, empty, 'other', false, 0)).toThrow(
      expect.objectContaining({
        status: expect.objectContaining({ reason: 'Conflict', details: { causes: [expect.objectContaining({ field: '.rules' })] } }),
      }),
    );
    expect(manager.apply(live, empty, 'other', true, 0)).toMatchObject({ rules: [] });
    expect(manager.apply(live, role, 'other', false, 0)).toMatchObject({ rules: null });
  });

  it('succeeds for the manager of the list', () => {
    const live = stored(manager.apply(undefined, empty, 'owner', false, 0));
    expect(manager.apply(live, empty, 'owner', false, 0)).toMatchObject({ rules: [] });
  });
});
