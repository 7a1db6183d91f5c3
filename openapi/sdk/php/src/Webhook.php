<?php

declare(strict_types=1);

namespace PartnerSdk;

use Partner\Model\ModelInterface;
use Partner\ObjectSerializer;

/** A genuine webhook. */
final class Webhook
{
    /** Seconds at which a signature is too old, or too far ahead. */
    private const TOLERANCE = 300;

    /**
     * @param string $id the same for every delivery of an event: ignore an event that you have handled
     * @param ModelInterface|null $event null when the type is newer than this package: respond with 2xx and continue
     * @param int|null $sequence counts the events of a consultation from 1; the signature does not cover it
     * @param bool $test whether you requested it as a test; the signature does not cover it
     */
    private function __construct(
        public readonly string $id,
        public readonly string $type,
        public readonly ?ModelInterface $event,
        public readonly ?int $sequence,
        public readonly bool $test,
    ) {
    }

    /** Checks one signature of a body, as the bytes that were received. Returns "malformed", "mismatch", "expired", or null when it is valid. */
    public static function signatureFault(string $secret, string $header, string $body, ?int $now = null): ?string
    {
        if (preg_match('/\At=([0-9]{10}),v1=([0-9a-f]{64})\z/', $header, $parts) !== 1) {
            return 'malformed';
        }
        if (!hash_equals(hash_hmac('sha256', "$parts[1].$body", $secret), $parts[2])) {
            return 'mismatch';
        }
        return abs(($now ?? time()) - (int) $parts[1]) >= self::TOLERANCE ? 'expired' : null;
    }

    /**
     * Reads a webhook that the service signed with one of your secrets. During a rotation give both: one of the two signatures of the
     * request has to match one of them.
     *
     * @param list<string> $secrets
     * @param array<string, string|list<string>> $headers of the request, by name
     * @param string $body the bytes that were received, before anything parsed them
     * @throws WebhookException when it is not genuine
     */
    public static function read(array $secrets, array $headers, string $body, ?int $now = null): self
    {
        $given = [];
        foreach ($headers as $name => $value) {
            $given[strtolower((string) $name)] = is_array($value) ? ($value[0] ?? '') : $value;
        }
        $faults = [];
        foreach (['x-service-signature', 'x-service-signature-previous'] as $name) {
            foreach ($secrets as $secret) {
                $faults[] = self::signatureFault($secret, $given[$name] ?? '', $body, $now);
            }
        }
        if (!in_array(null, $faults, true)) {
            throw new WebhookException(in_array('expired', $faults, true) ? 'expired' : (in_array('mismatch', $faults, true) ? 'mismatch' : 'malformed'));
        }
        $content = json_decode($body);
        if (!is_object($content) || !is_string($content->id ?? null) || !is_string($content->type ?? null)) {
            throw new WebhookException('malformed');
        }
        $class = '\\Partner\\Model\\' . str_replace(' ', '', ucwords(strtr($content->type, '._', '  '))) . 'Event';
        $known = preg_match('/\A[a-z]+\.[a-z_]+\z/', $content->type) === 1 && class_exists($class);
        return new self(
            $content->id,
            $content->type,
            $known ? ObjectSerializer::deserialize($content, $class) : null,
            isset($given['x-service-sequence']) ? (int) $given['x-service-sequence'] : null,
            ($given['x-service-test'] ?? '') === 'true',
        );
    }
}
