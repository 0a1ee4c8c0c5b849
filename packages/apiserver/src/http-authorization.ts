import { forbidden, failure, type StatusError } from '@oarlock/api/status';
import type { Attributes, Authorizer, ResourceAttributes } from '@oarlock/spi/authz';

/**
 * Asks the chain: the first who allows or denies decides, and when nobody does the request is refused.
 * Returns the refusal, or undefined when it may go on. Throws only what an authorizer throws.
 */
export async function refusalOf(chain: readonly Authorizer[], attributes: Attributes): Promise<StatusError | undefined> {
  const reasons: string[] = [];
  for (const authorizer of chain) {
    const { decision, because } = await authorizer.authorize(attributes);
    if (decision === 'allow') return undefined;
    if (because !== undefined && because !== '') reasons.push(because);
    if (decision === 'deny') break;
  }
  return forbiddenTo(attributes, reasons.join('\n'));
}

function forbiddenTo(attributes: Attributes, because: string): StatusError {
  const message = `${describe(attributes)}${because === '' ? '' : `: ${because}`}`;
  return attributes.kind === 'path' ? failure('Forbidden', `forbidden: ${message}`, {}) : forbidden(attributes, attributes.name, message);
}

function describe(attributes: Attributes): string {
  const who = `User ${JSON.stringify(attributes.identity.name)}`;
  if (attributes.kind === 'path') return `${who} cannot ${attributes.verb} path ${JSON.stringify(attributes.path)}`;
  const where = attributes.namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(attributes.namespace)}`;
  return `${who} cannot ${attributes.verb} resource ${JSON.stringify(resourceOf(attributes))} in API group ${JSON.stringify(attributes.group)} ${where}`;
}

const resourceOf = ({ resource, subresource }: ResourceAttributes) => (subresource === '' ? resource : `${resource}/${subresource}`);
