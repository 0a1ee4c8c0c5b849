import { generateKeyPairSync } from 'node:crypto';
import { loopbackHandler } from '@oarlock/apiserver/pipeline/loopback-handler';
import { Pipeline } from '@oarlock/apiserver/pipeline/pipeline';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ApiRequest, ApiResponse } from '@oarlock/spi/loopback';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';

const identity = { name: 'bench', groups: ['system:masters'] };
const unavailable = () => Promise.reject(new Error('the bench has no certificates'));

function newPipeline(): Pipeline {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return new Pipeline({
    storage: new MemoryStorage(),
    authz: [{ authorize: () => ({ decision: 'allow', reason: 'bench' }) }],
    admission: [],
    clock: systemClock,
    log: silentLogger,
    clusterFacts: {
      name: 'bench',
      domain: 'cluster.local',
      podCIDRs: ['10.244.0.0/16'],
      serviceCIDRs: ['10.96.0.0/16'],
      kubernetesServiceIP: '10.96.0.1',
      dnsServiceIP: '10.96.0.10',
      serverUrl: 'https://192.0.2.1:6443',
      nodePortRange: { from: 30000, to: 32767 },
      version: 'v1.36.0',
    },
    clusterKeys: {
      caBundle: '',
      issue: unavailable,
      sign: unavailable,
      serviceAccount: {
        issuer: 'bench',
        signingKey: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        verifyingKeys: [],
      },
    },
  });
}

/** Sends a request about objects of the namespace `default`; returns the response. */
export type Send = (verb: ApiRequest['verb'], resource: ApiRequest['resource'], more: Partial<ApiRequest>) => Promise<ApiResponse>;

/** Starts a request pipeline over storage in memory, without admission, that allows everything. */
export async function startPipeline(): Promise<{ readonly send: Send; stop(): Promise<void> }> {
  const pipeline = newPipeline();
  await pipeline.start();
  const handler = loopbackHandler(pipeline, () => Promise.reject(new Error('no paths')));
  return {
    send: (verb, resource, more) =>
      handler.handle({ verb, resource, subresource: '', namespace: 'default', name: '', query: {}, identity, ...more }),
    stop: () => pipeline.stop(),
  };
}
