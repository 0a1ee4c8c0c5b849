import type { KubeObject } from '@oarlock/api/object';
import { deviceTaintRulesV1beta2 } from '@oarlock/api/resources';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestServer } from '../../support/pipeline-fixture.ts';

const added = '2025-01-01T00:00:00Z';
const rule = (effect: string, timeAdded: string): KubeObject =>
  ({
    kind: 'DeviceTaintRule',
    apiVersion: 'resource.k8s.io/v1beta2',
    metadata: { name: 'x' },
    spec: { deviceSelector: { driver: 'd.example.com' }, taint: { key: 'k', effect, timeAdded } },
  }) as KubeObject;

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start({ runtimeConfig: { 'api/all': true } });
});
afterEach(() => server.stop());

const patched = async (taint: Readonly<Record<string, string>>) => {
  const { metadata, spec } = (await server.patch(deviceTaintRulesV1beta2, 'x', { spec: { taint } })) as DeviceTaintRule;
  return { generation: metadata?.generation, taint: spec.taint };
};

describe('the time of the taint of a DeviceTaintRule', () => {
  it('changes with the effect', async () => {
    await server.create(deviceTaintRulesV1beta2, rule('NoSchedule', added));
    const { generation, taint } = await patched({ effect: 'NoExecute' });
    expect(generation).toBe(2);
    expect(Date.parse(taint.timeAdded ?? '')).toBeGreaterThan(Date.parse(added));
  });

  it('stays when another field changes', async () => {
    await server.create(deviceTaintRulesV1beta2, rule('NoSchedule', added));
    expect((await patched({ value: 'v' })).taint).toEqual({ key: 'k', value: 'v', effect: 'NoSchedule', timeAdded: added });
  });

  it('is that of the caller who changes it with the effect', async () => {
    await server.create(deviceTaintRulesV1beta2, rule('NoSchedule', added));
    const timeAdded = '2026-02-01T00:00:00Z';
    expect((await patched({ effect: 'NoExecute', timeAdded })).taint.timeAdded).toBe(timeAdded);
  });
});
