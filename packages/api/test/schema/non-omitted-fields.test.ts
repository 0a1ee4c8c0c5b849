import { schemaOf } from '@oarlock/api/schema/schema';
import { schemaTable } from '@oarlock/api/generated/schema-table';
import { zeroValueOf, withNonOmittedFields, nonOmittedFields } from '@oarlock/api/schema/non-omitted-fields';
import { describe, expect, it } from 'vitest';

const encoded = (group: string, version: string, kind: string, value: object) => {
  const schema = schemaOf({ group, version, kind });
  if (schema === undefined) throw new Error(`there is no ${kind}`);
  return withNonOmittedFields(schema, value);
};

describe('non-omitted fields', () => {
  it('include structs and numbers of a status, at any depth', () => {
    expect(encoded('apps', 'v1', 'DaemonSet', { spec: { template: { spec: { containers: [{ name: 'c' }] } } } })).toEqual({
      spec: { updateStrategy: {}, template: { metadata: {}, spec: { containers: [{ name: 'c', resources: {} }] } } },
      status: { currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0 },
    });
    const statuses = { status: { containerStatuses: [{ name: 'c', ready: true, image: 'i', imageID: 'i' }] } };
    expect(encoded('', 'v1', 'Pod', statuses)).toEqual({
      status: { containerStatuses: [{ name: 'c', ready: true, image: 'i', imageID: 'i', restartCount: 0, state: {}, lastState: {} }] },
    });
    expect(encoded('networking.k8s.io', 'v1', 'NetworkPolicy', {})).toEqual({ spec: { podSelector: {} } });
    expect(encoded('', 'v1', 'Event', {})).toMatchObject({ source: {}, reportingComponent: '', reportingInstance: '' });
    expect(encoded('', 'v1', 'Node', {})).toMatchObject({
      spec: {},
      status: { daemonEndpoints: { kubeletEndpoint: { Port: 0 } }, nodeInfo: { machineID: '', kubeletVersion: '' } },
    });
  });

  it('are null if they are lists without omitempty or times without a pointer', () => {
    expect(encoded('discovery.k8s.io', 'v1', 'EndpointSlice', { addressType: 'IPv4', endpoints: [] })).toEqual({
      addressType: 'IPv4',
      endpoints: null,
      ports: null,
    });
    const slice = { endpoints: [{ addresses: ['10.0.0.1'], conditions: {} }], ports: [{ port: 80 }] };
    expect(encoded('discovery.k8s.io', 'v1', 'EndpointSlice', slice)).toBe(slice);
    expect(encoded('autoscaling', 'v2', 'HorizontalPodAutoscaler', {})).toEqual({ status: { currentMetrics: null, desiredReplicas: 0 } });
    const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }];
    expect(encoded('', 'v1', 'Pod', { status: { conditions } })).toEqual({
      status: { conditions: [{ ...conditions[0], lastProbeTime: null }] },
    });
    expect(encoded('', 'v1', 'Node', { status: { conditions } })).toMatchObject({
      status: { conditions: [{ ...conditions[0], lastHeartbeatTime: null }] },
    });
    expect(encoded('', 'v1', 'Event', { firstTimestamp: '2026-01-01T00:00:00Z' })).toMatchObject({
      eventTime: null,
      firstTimestamp: '2026-01-01T00:00:00Z',
      lastTimestamp: null,
    });
  });

  it('are not changed if present; the same object is returned', () => {
    const whole = { spec: { podSelector: { matchLabels: { a: 'b' } } } };
    expect(encoded('networking.k8s.io', 'v1', 'NetworkPolicy', whole)).toBe(whole);
    const configMap = { data: { a: '' } };
    expect(encoded('', 'v1', 'ConfigMap', configMap)).toBe(configMap);
  });

  it('are added to a copy', () => {
    const empty = Object.freeze({});
    expect(encoded('batch', 'v1', 'Job', empty)).toEqual({ status: {} });
    const schema = schemaOf({ group: 'apps', version: 'v1', kind: 'StatefulSet' })?.properties?.get('status');
    expect(schema && zeroValueOf(schema)).toEqual({ replicas: 0, availableReplicas: 0 });
  });

  it('are listed for existing fields only', () => {
    const fields = new Map<string, Set<string>>();
    for (const [scope, text] of Object.entries(schemaTable))
      for (const [name, row] of Object.entries(JSON.parse(text) as Record<string, object>))
        for (const id of [name, `${scope}.${name}`])
          fields.set(id, new Set([...(fields.get(id) ?? []), ...Object.keys(row).map((key) => key.replace('!', ''))]));
    for (const [id, names] of Object.entries(nonOmittedFields))
      for (const name of names.split(' ')) expect(fields.get(id), `${id}.${name}`).toContain(name);
  });
});
