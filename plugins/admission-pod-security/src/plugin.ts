import { namespaces } from '@oarlock/api/resources';
import { Admission } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { PodSecurity, templates } from './pod-security.ts';
import { levels, parseVersion } from './policy.ts';

const level = z.enum(levels).default('privileged');
const version = z
  .string()
  .refine((text) => parseVersion(text) !== undefined, 'latest or v1.x')
  .default('latest');
const names = z.array(z.string().min(1)).default([]);

/** Enforces the Pod Security Standards that the labels of the namespace select (PodSecurity). */
export default Admission.plugin({
  id: 'admission-pod-security',
  config: z.strictObject({
    defaults: z
      .strictObject({
        enforce: level,
        'enforce-version': version,
        audit: level,
        'audit-version': version,
        warn: level,
        'warn-version': version,
      })
      .prefault({}),
    exemptions: z.strictObject({ usernames: names, runtimeClasses: names, namespaces: names }).prefault({}),
  }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }) {
    const podSecurity = new PodSecurity(client, informers.forResource(namespaces), config);
    return {
      matches: [
        { resources: ['pods', 'pods/ephemeralcontainers', 'namespaces', ...Object.keys(templates)], operations: ['CREATE', 'UPDATE'] },
      ],
      validate: (request) => podSecurity.validate(request),
    };
  },
});
