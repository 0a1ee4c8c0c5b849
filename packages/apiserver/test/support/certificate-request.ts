/** A PKCS #10 request for the subject "CN=jane", signed by its own Ed25519 key. */
export const certificateRequestPem = `-----BEGIN CERTIFICATE REQUEST-----
MIGOMEICAQAwDzENMAsGA1UEAwwEamFuZTAqMAUGAytlcAMhAPvNgmuHqS1nw92x
Dvy4gj468M4XmV/Si1AF7rI1YV6loAAwBQYDK2VwA0EA+06FdnftatT2VOgc+Jhn
A/otM/UKby0jLIygjhg2ZlrJalx2aBb3bWIC8M1g6ed/cL9LuZXVDQctkf3ByxMS
BQ==
-----END CERTIFICATE REQUEST-----
`;

/** The value of `spec.request` in a CertificateSigningRequest. */
export const certificateRequest = Buffer.from(certificateRequestPem).toString('base64');
