import { readFile } from 'node:fs/promises';
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';
import { policyMatches, parsePolicies, type Policy } from './policy.ts';

/** Attribute-based access control (ABAC) with a policy file, which is read once at startup. */
export default Authz.plugin({
  id: 'authz-abac',
  config: z.strictObject({ file: z.string().min(1) }),
  create({ config }) {
    let policies: readonly Policy[] = [];
    return {
      async start() {
        policies = parsePolicies(await readFile(config.file, 'utf8'), config.file);
      },
      authorize(asked) {
        const at = policies.findIndex((policy) => policyMatches(policy, asked));
        return at < 0 ? noOpinion : { decision: 'allow', reason: `ABAC: policy ${at + 1}` };
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
        const own = policies.filter(
          (policy) =>
            policyMatches(
              { ...policy, resource: '*', apiGroup: '*', namespace: policy.namespace === '*' ? '*' : policy.namespace },
              probe,
            ) ||
            (policy.nonResourcePath !== '' && policyMatches(policy, { kind: 'path', identity, verb: 'get', path: policy.nonResourcePath })),
        );
        const verbs = ({ readonly }: Policy) => (readonly ? ['get', 'list', 'watch'] : ['*']);
        return {
          resources: own
            .filter(({ resource }) => resource !== '')
            .map((policy) => ({ verbs: verbs(policy), apiGroups: [policy.apiGroup], resources: [policy.resource] })),
          paths: own
            .filter(({ nonResourcePath }) => nonResourcePath !== '')
            .map((policy) => ({ verbs: verbs(policy), nonResourceURLs: [policy.nonResourcePath] })),
        };
      },
    };
  },
});
