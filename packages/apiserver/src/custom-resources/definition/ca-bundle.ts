import { X509Certificate } from 'node:crypto';
import { pemBlocks } from '@oarlock/api/values/pem';
import { errorText } from '@oarlock/primitives/error-text';

/** Returns the reason why no certificate can be loaded from a bundle in base64, in upstream's words; undefined if one can, or if the bundle is empty. */
export function caBundleError(caBundle = ''): string | undefined {
  if (caBundle === '') return undefined;
  const certificates = pemBlocks(caBundle).filter(({ type }) => type === 'CERTIFICATE');
  let failure: string | undefined;
  for (const { text } of certificates) {
    try {
      void new X509Certificate(text);
      return undefined;
    } catch (error) {
      failure ??= `failed to parse certificate: ${errorText(error)}`;
    }
  }
  return `unable to load root certificates: ${failure ?? 'unable to parse bytes as PEM block'}`;
}
