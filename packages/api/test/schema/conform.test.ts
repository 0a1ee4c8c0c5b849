import { describe, expect, it } from 'vitest';
import { conformToSchema } from '../../src/schema/conform.ts';
import { schemaOf, type Schema } from '../../src/schema/schema.ts';

const schema = schemaOf({ group: '', version: 'v1', kind: 'Pod' }) as Schema;
/** A container with a field that the schema does not declare, which a visit drops. */
const container = () => ({ name: 'c', unknown: 1 });
const visited = [{ name: 'c' }];

describe('conforming a value that shares parts with a known value', () => {
  it('does not visit a frozen part at the same place, at any depth', () => {
    const containers = Object.freeze([Object.freeze(container())]);
    const pod = { spec: { nodeName: 'n', containers }, status: { unknown: 1 } };
    const conformed = conformToSchema(schema, pod, { spec: { containers } });
    expect(conformed).toEqual({ spec: { nodeName: 'n', containers }, status: {} });
    expect(conformed.spec.containers).toBe(containers);
  });

  it('does not visit a frozen item of a list that has changed', () => {
    const first = Object.freeze(container());
    const pod = { spec: { containers: [first, container()] } };
    expect(conformToSchema(schema, pod, { spec: { containers: [first] } })).toEqual({ spec: { containers: [first, { name: 'c' }] } });
  });

  it('visits a part that can still change', () => {
    const containers = [container()];
    expect(conformToSchema(schema, { spec: { containers } }, { spec: { containers } })).toEqual({ spec: { containers: visited } });
  });

  it('visits a frozen part of the known value that is at another place', () => {
    const containers = Object.freeze([container()]);
    const known = { spec: { initContainers: containers } };
    expect(conformToSchema(schema, { spec: { containers } }, known)).toEqual({ spec: { containers: visited } });
  });
});
