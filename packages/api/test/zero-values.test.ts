import { conform } from '@oarlock/api/conform';
import { schemaTable } from '@oarlock/api/generated/schema-table';
import { protobufTable } from '@oarlock/api/generated/protobuf-table';
import { schemaOf } from '@oarlock/api/schema';
import { keptZeros, leftZeros } from '@oarlock/api/zero-values';
import { describe, expect, it } from 'vitest';

type Rows = Readonly<Record<string, Readonly<Record<string, string>>>>;
const conformed = (group: string, kind: string, value: object) => {
  const schema = schemaOf({ group, version: 'v1', kind });
  if (schema === undefined) throw new Error(`there is no ${kind}`);
  return conform(schema, value);
};

describe('empty values', () => {
  it('go where Go leaves them out', () => {
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

  it('stay where they mean something: pointers, what is required, structs, members of maps and lists, raw values', () => {
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

  it('differ where versions do', () => {
    expect(conformed('', 'Event', { reportingInstance: '', reportingComponent: '' })).toEqual({
      reportingInstance: '',
      reportingComponent: '',
    });
    expect(conformed('events.k8s.io', 'Event', { reportingInstance: '', reportingController: '' })).toEqual({});
  });

  it('are named by fields that there are', () => {
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
    for (const table of [keptZeros, leftZeros])
      for (const [id, names] of Object.entries(table))
        for (const name of names.split(' ')) expect(fields.get(id), `${id}.${name}`).toContain(name);
  });
});
