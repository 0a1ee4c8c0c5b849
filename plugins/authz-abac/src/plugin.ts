import { readFile } from 'node:fs/promises';
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';
import { policyMatches, parsePolicies, type Policy } from './policy.ts';

/** Authorizes requests by attribute-based access control (ABAC) with a policy file, which is read once at startup. */
export default Authz.plugin({
  id: 'authz-abac',
  config: z.strictObject({ file: z.string().min(1) }),
  create({ config }) {
    let policies: readonly Policy[] = [];
    return {
      async start() {
        policies = parsePolicies(await readFile(config.file, 'utf8'), config.file);
      },
      authorize(attributes) {
        const index = policies.findIndex((policy) => policyMatches(policy, attributes));
        return index < 0 ? noOpinion : { decision: 'allow', reason: `ABAC: policy ${index + 1}` };
      },
      rulesFor(identity, namespace) {
        const probe = {
          kind: 'resource',
          identity,
          verb: 'get',
          group: '',
          version: '',
          resource: '',
          subresource: '',
          namespace,
          name: '',
        } as const;
        const applicable = policies.filter(
          (policy) =>
            policyMatches(
              { ...policy, resource: '*', apiGroup: '*', namespace: policy.namespace === '*' ? '*' : policy.namespace },
              probe,
            ) ||
            (policy.nonResourcePath !== '' && policyMatches(policy, { kind: 'path', identity, verb: 'get', path: policy.nonResourcePath })),
        );
        const verbs = ({ readonly }: Policy) => (readonly ? ['get', 'list', 'watch'] : ['*']);
        return {
          resources: applicable
            .filter(({ resource }) => resource !== '')
            .map((policy) => ({ verbs: verbs(policy), apiGroups: [policy.apiGroup], resources: [policy.resource] })),
          paths: applicable
            .filter(({ nonResourcePath }) => nonResourcePath !== '')
            .map((policy) => ({ verbs: verbs(policy), nonResourceURLs: [policy.nonResourcePath] })),
        };
      },
    };
  },
});
