import { conformToSchema } from '@oarlock/api/schema/conform';
import { schemaTable } from '@oarlock/api/generated/schema-table';
import { protobufTable } from '@oarlock/api/generated/protobuf-table';
import { schemaOf } from '@oarlock/api/schema/schema';
import { fieldsKeepingZero, requiredFieldsOmittingZero } from '@oarlock/api/schema/zero-values';
import { describe, expect, it } from 'vitest';

type Rows = Readonly<Record<string, Readonly<Record<string, string>>>>;
const conformed = (group: string, kind: string, value: object) => {
  const schema = schemaOf({ group, version: 'v1', kind });
  if (schema === undefined) throw new Error(`there is no ${kind}`);
  return conformToSchema(schema, value);
};

describe('empty values', () => {
  it('are omitted where Go omits them', () => {
    const pod = conformed('', 'Pod', {
      metadata: { name: 'a', generateName: '', labels: {}, annotations: {}, finalizers: [], ownerReferences: [] },
      spec: {
        nodeName: '',
        hostNetwork: false,
        nodeSelector: {},
        tolerations: [],
        containers: [
          {
            name: 'c',
            image: '',
            args: [],
            stdin: false,
            env: [{ name: 'A', value: '' }],
            ports: [{ containerPort: 0, hostPort: 0, hostIP: '' }],
            resources: { limits: {}, requests: {} },
          },
        ],
        volumes: [{ name: 'v', emptyDir: { medium: '' } }],
      },
      status: { phase: '', conditions: [] },
    });
    expect(pod).toEqual({
      metadata: { name: 'a' },
      spec: {
        containers: [{ name: 'c', env: [{ name: 'A' }], ports: [{ containerPort: 0 }], resources: {} }],
        volumes: [{ name: 'v', emptyDir: {} }],
      },
      status: {},
    });
  });

  it('stay for pointers, required fields, structs, members of maps and lists, and raw values', () => {
    const kept = {
      metadata: { name: 'a', annotations: { empty: '' }, deletionGracePeriodSeconds: 0 },
      spec: {
        terminationGracePeriodSeconds: 0,
        priority: 0,
        enableServiceLinks: false,
        securityContext: { runAsUser: 0, runAsNonRoot: false },
        nodeSelector: { a: '' },
        containers: [{ name: '', args: [''], securityContext: {} }],
        volumes: [{ name: 'v', emptyDir: {} }],
      },
      status: { containerStatuses: [{ name: '', ready: false, restartCount: 0, image: '', imageID: '', started: false, lastState: {} }] },
    };
    expect(conformed('', 'Pod', kept)).toBe(kept);
    const slice = { addressType: 'IPv4', endpoints: [], ports: [] };
    expect(conformed('discovery.k8s.io', 'EndpointSlice', slice)).toBe(slice);
    const revision = { revision: 0, data: { a: '', b: [], c: 0 } };
    expect(conformed('apps', 'ControllerRevision', revision)).toBe(revision);
  });

  it('depend on the version', () => {
    expect(conformed('', 'Event', { reportingInstance: '', reportingComponent: '' })).toEqual({
      reportingInstance: '',
      reportingComponent: '',
    });
    expect(conformed('events.k8s.io', 'Event', { reportingInstance: '', reportingController: '' })).toEqual({});
  });

  it('are listed for existing fields only', () => {
    const fields = new Map<string, Set<string>>();
    const add = (id: string, names: readonly string[]) => {
      for (const key of [id, id.slice(id.lastIndexOf('.') + 1)]) fields.set(key, new Set([...(fields.get(key) ?? []), ...names]));
    };
    for (const [scope, text] of Object.entries(schemaTable))
      for (const [name, row] of Object.entries(JSON.parse(text) as Rows))
        add(
          `${scope}.${name}`,
          Object.keys(row).map((key) => key.replace('!', '')),
        );
    for (const text of Object.values(protobufTable))
      for (const [name, row] of Object.entries(JSON.parse(text) as Rows)) add(name, Object.keys(row));
    for (const table of [fieldsKeepingZero, requiredFieldsOmittingZero])
      for (const [id, names] of Object.entries(table))
        for (const name of names.split(' ')) expect(fields.get(id), `${id}.${name}`).toContain(name);
  });
});
