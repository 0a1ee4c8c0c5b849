import { fieldForbidden, invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import { isDns1035Label } from '@oarlock/api/values/names';
import type { CustomResourceConversion } from '@oarlock/api/types/apiextensions-v1';
import { errorText } from '@oarlock/primitives/error-text';

import { caBundleError } from './ca-bundle.ts';
import { hasKnownReviewVersion, type SchemaRequirements } from './schema-requirements.ts';

type Errors = FieldError[];

/** Validates spec.conversion of a CustomResourceDefinition. */
export function validateConversion(
  { strategy, webhook }: CustomResourceConversion,
  path: string,
  { knownReviewVersion, validCaBundle }: Pick<SchemaRequirements, 'knownReviewVersion' | 'validCaBundle'>,
): readonly FieldError[] {
  const errors: Errors = [];
  const strategies = ['None', 'Webhook'];
  if (strategy === '') errors.push(required(`${path}.strategy`));
  else if (strategy !== undefined && !strategies.includes(strategy)) errors.push(notSupported(`${path}.strategy`, strategy, strategies));
  if (strategy !== 'Webhook') {
    if (webhook !== undefined) errors.push(fieldForbidden(`${path}.webhook`, 'should not be set when strategy is not set to Webhook'));
    return errors;
  }
  const client = webhook?.clientConfig;
  if (client === undefined) errors.push(required(`${path}.webhookClientConfig`, 'required when strategy is set to Webhook'));
  else if ((client.url === undefined) === (client.service === undefined))
    errors.push(required(`${path}.webhookClientConfig`, 'exactly one of url or service is required'));
  else if (client.url !== undefined) urlErrors(errors, `${path}.webhookClientConfig.url`, client.url);
  else if (client.service !== undefined) {
    const { name, namespace, port = 443, path: at } = client.service;
    if (name === '') errors.push(required(`${path}.webhookClientConfig.service.name`));
    if (namespace === '') errors.push(required(`${path}.webhookClientConfig.service.namespace`));
    if (port < 1 || port > 65_535)
      errors.push(invalid(`${path}.webhookClientConfig.service.port`, port, 'port is not valid: must be between 1 and 65535, inclusive'));
    if (at !== undefined && !at.startsWith('/'))
      errors.push(invalid(`${path}.webhookClientConfig.service.path`, at, "must start with a '/'"));
  }
  const bundleError = validCaBundle ? caBundleError(client?.caBundle) : undefined;
  if (bundleError !== undefined) errors.push(invalid(`${path}.webhookClientConfig.caBundle`, client?.caBundle, bundleError));
  const versions = webhook?.conversionReviewVersions ?? [];
  const at = `${path}.conversionReviewVersions`;
  if (versions.length === 0) errors.push(required(at));
  else if (knownReviewVersion && !hasKnownReviewVersion(versions))
    errors.push(invalid(at, versions, 'must include at least one of v1, v1beta1'));
  for (const [i, version] of versions.entries()) {
    if (versions.indexOf(version) < i) errors.push(invalid(`${at}[${i}]`, version, 'duplicate version'));
    const wrong = isDns1035Label(version);
    if (wrong.length > 0) errors.push(invalid(`${at}[${i}]`, version, wrong.join(',')));
  }
  return errors;
}

function urlErrors(errors: Errors, path: string, value: string): void {
  const form = 'desired format: https://host[/path]';
  let url: URL;
  try {
    url = new URL(value);
  } catch (error) {
    errors.push(required(path, `url must be a valid URL: ${errorText(error)}; ${form}`));
    return;
  }
  if (url.protocol !== 'https:') errors.push(invalid(path, url.protocol.slice(0, -1), `'https' is the only allowed URL scheme; ${form}`));
  if (url.hostname === '') errors.push(invalid(path, '', `host must be specified; ${form}`));
  if (url.username !== '' || url.password !== '') errors.push(invalid(path, url.username, 'user information is not permitted in the URL'));
  if (url.hash !== '') errors.push(invalid(path, url.hash.slice(1), 'fragments are not permitted in the URL'));
  if (url.search !== '') errors.push(invalid(path, url.search.slice(1), 'query parameters are not permitted in the URL'));
}
