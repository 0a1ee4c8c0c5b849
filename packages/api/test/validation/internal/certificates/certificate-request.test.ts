import { describe, expect, it } from 'vitest';
import { certificateRequestFault } from '../../../../src/validation/internal/certificates/certificate-request.ts';
import { certificateRequestPem } from '@oarlock/testing/sample-certificates';

const ecdsa = `-----BEGIN CERTIFICATE REQUEST-----
MIHZMIGAAgEAMB4xDTALBgNVBAoMBGRldnMxDTALBgNVBAMMBGphbmUwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAATEYOtG01gcHWKW47MBuQPEquQ+9HPvoDMJi8XQ
cfP9xwYNXeOLnz0jCwsoVA4ZdF+rQSXkvVqF8Q4lNEpm3bACoAAwCgYIKoZIzj0E
AwIDSAAwRQIhAJhiyuXH9gksZ1CpRtb4dKr++B/+gQDWhvZpGqsRfz81AiA+szFk
czKHWdLKqVs0PfWWdMkshDqxIR1lEE65xtAJ6g==
-----END CERTIFICATE REQUEST-----
`;
const rsa = `-----BEGIN CERTIFICATE REQUEST-----
MIICVDCCATwCAQAwDzENMAsGA1UEAwwEamFuZTCCASIwDQYJKoZIhvcNAQEBBQAD
ggEPADCCAQoCggEBALr6q+cfGJFSPPx0xxAYmzEeboAk542jLpH/O+sUtQ9VuAXp
8O1P38JFU1IVl3AjDNsP9FMol8WseLaXM8SEqiPH5R+HdJIULhrzZpQdH9mrdz6N
mGjdGYQlF8BZRLJO8rjHuKbUCsts8xtsq/DeAncCG77u87NcEQPjK5NdrNGYPWJh
sxFAIlFCNlEb92gtM1BxWHtrZZfYqqFhQgi73QFbVG3FDxcO4sv50OQ9CLFCI1Fs
ieKK/0mO44EQuJ5VqpO5Zp/UPwCkRMfkIoHDvwWFqzulyIfSfFTvpu48LyVtd5JQ
ZfZ7c/yeXU3FFhENCSp8f7IpzvxuAa3kru4xEBsCAwEAAaAAMA0GCSqGSIb3DQEB
CwUAA4IBAQCcAfp3NKblXrjgLKBvhDLfx4Yli5dLgN5r3l454SavVd72S0xub/aw
3O1d+a4z6cby8EDIjUF8OkzNX/ObOx7RA6QZSCdm/LXl0MgKYoLy+CBvVQ3l2QhA
AFuafcZQS2b0WPAxKQAozU/PQaai7unNkZuWZej/thaHmfy5bdwdw961GLI2+wie
2sJmPOXYU5JNloc9edsQcrQfT2BxI03rhi9kqF8GFgkQx5DqML0SJQ4PHhr1Uvh8
YVBtP2s4uj1y2XfPigg0NBgskxmesWa8P2R6+8RNvBINtEt8UWoIyCN/APRt3n+u
9ne0byG2W0d/7ilJhRmPdaGHddBaRkJI
-----END CERTIFICATE REQUEST-----
`;
const rsaPss = `-----BEGIN CERTIFICATE REQUEST-----
MIICiDCCATwCAQAwDzENMAsGA1UEAwwEamFuZTCCASIwDQYJKoZIhvcNAQEBBQAD
ggEPADCCAQoCggEBALr6q+cfGJFSPPx0xxAYmzEeboAk542jLpH/O+sUtQ9VuAXp
8O1P38JFU1IVl3AjDNsP9FMol8WseLaXM8SEqiPH5R+HdJIULhrzZpQdH9mrdz6N
mGjdGYQlF8BZRLJO8rjHuKbUCsts8xtsq/DeAncCG77u87NcEQPjK5NdrNGYPWJh
sxFAIlFCNlEb92gtM1BxWHtrZZfYqqFhQgi73QFbVG3FDxcO4sv50OQ9CLFCI1Fs
ieKK/0mO44EQuJ5VqpO5Zp/UPwCkRMfkIoHDvwWFqzulyIfSfFTvpu48LyVtd5JQ
ZfZ7c/yeXU3FFhENCSp8f7IpzvxuAa3kru4xEBsCAwEAAaAAMEEGCSqGSIb3DQEB
CjA0oA8wDQYJYIZIAWUDBAIBBQChHDAaBgkqhkiG9w0BAQgwDQYJYIZIAWUDBAIB
BQCiAwIBIAOCAQEAfyiLSxVpIH6l8mx7SkXs+7eqPB3cr88xcx+l5Y29h4R7ZIZ6
HewbQaxBRNhD09Zlnyii1C5Xxb7AynYRHJ24+QiJtLe3VXnMI0ch62cnJGw4Q+vx
ScCFLFoDNvEG/Fv9/hGLC/2ezIZ0629WM/8ycA9vtMoisV0MOsEsQk6GZuXmlGBV
dPTbgjK9lEfih0zO96jIay6tdaedMHAlizjr5N6W+iYbSjIaGsA8YIZNo1vUFM03
aMwITuBqhkQORD+62e6x3zjB94uvxl3+po1EQmtn8JPso/PxvMmWOXqzfqJGk09w
J63BWOGGlLbl4e8j6mTWJLi2dGzxwTwNGle5Dw==
-----END CERTIFICATE REQUEST-----
`;

const fault = (pem: string) => certificateRequestFault(Buffer.from(pem).toString('base64'));
const derOf = (pem: string) => Buffer.from(pem.replaceAll(/-----.*-----/g, ''), 'base64');
const pemOf = (der: Uint8Array, type = 'CERTIFICATE REQUEST') =>
  `-----BEGIN ${type}-----\n${Buffer.from(der).toString('base64')}\n-----END ${type}-----\n`;
/** Returns the request with a changed byte, counted from the end if negative. */
const changed = (pem: string, at: number) => {
  const der = derOf(pem);
  der.writeUInt8(der.at(at)! ^ 1, at < 0 ? der.length + at : at);
  return pemOf(der);
};

describe('certificate requests', () => {
  it.each([
    ['Ed25519', certificateRequestPem],
    ['ECDSA', ecdsa],
    ['RSA', rsa],
    ['RSA-PSS', rsaPss],
  ])('with an %s key are valid, also after other text', (_, pem) => {
    expect(fault(pem)).toBeUndefined();
    expect(fault(`subject=/CN=jane\n${pem}`)).toBeUndefined();
  });

  it.each([
    ['no PEM', ''],
    ['only a BEGIN line', '-----BEGIN CERTIFICATE REQUEST-----\n'],
    ['another type', pemOf(derOf(ecdsa), 'NEW CERTIFICATE REQUEST')],
  ])('are PEM blocks: %s', (_, pem) => expect(fault(pem)).toBe('PEM block type must be CERTIFICATE REQUEST'));

  it.each([
    ['an empty block', pemOf(Buffer.of()), 'asn1: syntax error: sequence truncated'],
    ['one byte', pemOf(Buffer.of(0x30)), 'asn1: syntax error: truncated tag or length'],
    ['half a request', pemOf(derOf(ecdsa).subarray(0, 60)), 'asn1: syntax error: data truncated'],
    ['a longer block', pemOf(Buffer.concat([derOf(ecdsa), Buffer.of(0)])), 'asn1: syntax error: trailing data'],
    ['text', pemOf(Buffer.from('x.')), "asn1: structure error: tags don't match"],
    ['an indefinite length', pemOf(Buffer.of(0x30, 0x80, 0, 0)), 'asn1: syntax error: indefinite length found (not DER)'],
    ['a huge length', pemOf(Buffer.of(0x30, 0x88, 1, 1, 1, 1, 1, 1, 1, 1)), 'asn1: structure error: length too large'],
  ])('are PKCS #10: %s', (_, pem, message) => expect(fault(pem)).toBe(message));

  it.each([
    ['Ed25519', certificateRequestPem, 'x509: Ed25519 verification failure'],
    ['ECDSA', ecdsa, 'x509: ECDSA verification failure'],
    ['RSA', rsa, 'crypto/rsa: verification error'],
    ['RSA-PSS', rsaPss, 'crypto/rsa: verification error'],
  ])('are signed by their own key: %s', (_, pem, message) => expect(fault(changed(pem, -2))).toBe(message));

  it('have a known signature algorithm', () => {
    const der = derOf(certificateRequestPem);
    const at = der.lastIndexOf(Buffer.of(0x06, 0x03, 0x2b, 0x65, 0x70));
    der.writeUInt8(0x71, at + 4);
    expect(fault(pemOf(der))).toBe('x509: cannot verify signature: algorithm unimplemented');
  });
});
