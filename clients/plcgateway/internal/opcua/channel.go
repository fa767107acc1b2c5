package opcua

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopcua/opcua/ua"
	"github.com/gopcua/opcua/uapolicy"
)

// A channel is a secure channel. Its receiving half belongs to the connection's goroutine, its sending half to who
// holds the connection's writeMu.
type channel struct {
	id     uint32
	policy string
	mode   ua.MessageSecurityMode
	cert   []byte // the client's, DER; nil without security

	tokens  []*token // the newest last; at most two, while the client goes over to the newer
	sending atomic.Pointer[token]

	received    uint32 // the last sequence number
	hasReceived bool
	sent        uint32
}

// A token is one security token of a channel, with its keys.
type token struct {
	id      uint32
	alg     *uapolicy.EncryptionAlgorithm
	expires time.Time
}

const symmetricHead = 16 // of a chunk: type, size, channel, token

func (ch *channel) expires() time.Time { return ch.tokens[len(ch.tokens)-1].expires }

// open handles a message that opens a channel or renews its token.
func (c *conn) open(b []byte) error {
	buf := ua.NewBuffer(b[8:])
	id := buf.ReadUint32()
	policy := buf.ReadString()
	sender := buf.ReadBytes()
	thumbprint := buf.ReadBytes()
	if buf.Error() != nil {
		return refuse(ua.StatusBadTCPInternalError, "a channel's header: %v", buf.Error())
	}
	head := 8 + buf.Pos()
	ch := c.channel
	switch {
	case ch == nil && id != 0:
		return refuse(ua.StatusBadTCPSecureChannelUnknown, "channel %d is not open", id)
	case ch != nil && (id != ch.id || policy != ch.policy):
		return refuse(ua.StatusBadSecurityChecksFailed, "a renewed channel with another id or policy")
	}
	if ch == nil {
		ch = &channel{id: c.srv.nextID(), policy: policy}
	}
	secured := policy != ua.SecurityPolicyURINone
	var alg *uapolicy.EncryptionAlgorithm
	data := b[head:]
	if secured {
		if !c.srv.offers(policy, 0) {
			return refuse(ua.StatusBadSecurityPolicyRejected, "security policy %s is not offered", policy)
		}
		own := sha1.Sum(c.srv.cfg.Certificate)
		if !bytes.Equal(thumbprint, own[:]) {
			return refuse(ua.StatusBadCertificateInvalid, "the message is for another server's certificate")
		}
		cert, status := c.srv.trust.check(sender)
		if status != ua.StatusOK {
			return refuse(status, "the client's certificate is not accepted")
		}
		if ch.cert != nil && !bytes.Equal(ch.cert, cert.Raw) {
			return refuse(ua.StatusBadSecurityChecksFailed, "a renewed channel with another certificate")
		}
		ch.cert = cert.Raw
		var err error
		if alg, err = asymmetric(policy, c.srv.cfg.Key, cert); err != nil {
			return refuse(ua.StatusBadCertificateInvalid, "%v", err)
		}
		if data, err = unseal(alg, b, head, c.srv.cfg.Key.Size(), true, c.srv.cfg.Key.Size() > 256); err != nil {
			return err
		}
	}
	if len(data) < 8 {
		return refuse(ua.StatusBadTCPInternalError, "a channel's message of %d bytes", len(data))
	}
	if err := ch.inOrder(binary.LittleEndian.Uint32(data)); err != nil {
		return err
	}
	request := binary.LittleEndian.Uint32(data[4:])
	service, err := decode(data[8:], map[uint32]reflect.Type{openRequest: reflect.TypeFor[ua.OpenSecureChannelRequest]()})
	if err != nil {
		return refuse(ua.StatusBadTCPInternalError, "opening a channel: %v", err)
	}
	req := service.(*ua.OpenSecureChannelRequest)
	renew := req.RequestType == ua.SecurityTokenRequestTypeRenew
	if renew != (c.channel != nil) {
		return refuse(ua.StatusBadRequestTypeInvalid, "a channel is opened twice, or renewed before it is open")
	}
	switch {
	case renew && req.SecurityMode != ch.mode, secured == (req.SecurityMode == ua.MessageSecurityModeNone),
		secured && !c.srv.offers(policy, req.SecurityMode):
		return refuse(ua.StatusBadSecurityModeRejected, "security mode %s is not offered with this policy", req.SecurityMode)
	case secured && len(req.ClientNonce) != alg.NonceLength():
		return refuse(ua.StatusBadNonceInvalid, "a nonce of %d bytes, want %d", len(req.ClientNonce), alg.NonceLength())
	}
	if !renew {
		ch.mode = req.SecurityMode
	}

	lifetime := min(max(time.Duration(req.RequestedLifetime)*time.Millisecond, minLifetime), maxLifetime)
	now := time.Now()
	t := &token{id: c.srv.nextID(), expires: now.Add(lifetime + lifetime/4)}
	var nonce []byte
	if secured {
		if nonce, err = alg.MakeNonce(); err != nil {
			return err
		}
		if t.alg, err = uapolicy.Symmetric(policy, nonce, req.ClientNonce); err != nil {
			return err
		}
	}
	resp := &ua.OpenSecureChannelResponse{
		ResponseHeader: responseHeader(req.RequestHeader.RequestHandle, ua.StatusOK),
		SecurityToken: &ua.ChannelSecurityToken{ChannelID: ch.id, TokenID: t.id, CreatedAt: now,
			RevisedLifetime: uint32(lifetime / time.Millisecond)},
		ServerNonce: nonce,
	}
	body, err := encode(resp)
	if err != nil {
		return err
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if len(ch.tokens) == 2 {
		ch.tokens = ch.tokens[1:]
	}
	ch.tokens = append(ch.tokens, t)
	if ch.sending.Load() == nil {
		ch.sending.Store(t) // a renewed token is sent with once the client has shown that it has it
	}
	c.channel = ch
	out, err := ch.sealOpen(request, body, alg, c.srv.cfg.Certificate)
	if err != nil {
		return err
	}
	return c.write(out)
}

// asymmetric are the algorithms between a key of ours and a certificate's.
func asymmetric(policy string, key *rsa.PrivateKey, cert *x509.Certificate) (*uapolicy.EncryptionAlgorithm, error) {
	remote, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, ua.StatusBadCertificateInvalid
	}
	return uapolicy.Asymmetric(policy, key, remote)
}

// inOrder checks and takes a sequence number: each chunk's is the one after the last, but that it may begin again.
func (ch *channel) inOrder(n uint32) error {
	if ch.hasReceived && n != ch.received+1 && (ch.received < math.MaxUint32-1024 || n >= 1024) {
		return refuse(ua.StatusBadSequenceNumberInvalid, "chunk %d after %d", n, ch.received)
	}
	ch.received, ch.hasReceived = n, true
	return nil
}

// receive returns what a chunk of a message holds.
func (ch *channel) receive(b []byte) (request uint32, body []byte, err error) {
	if len(b) < symmetricHead+8 {
		return 0, nil, refuse(ua.StatusBadTCPInternalError, "a chunk of %d bytes", len(b))
	}
	if id := binary.LittleEndian.Uint32(b[8:]); id != ch.id {
		return 0, nil, refuse(ua.StatusBadTCPSecureChannelUnknown, "channel %d is not open here", id)
	}
	id := binary.LittleEndian.Uint32(b[12:])
	i := slices.IndexFunc(ch.tokens, func(t *token) bool { return t.id == id })
	if i < 0 {
		return 0, nil, refuse(ua.StatusBadSecureChannelTokenUnknown, "security token %d is unknown", id)
	}
	t := ch.tokens[i]
	if time.Now().After(t.expires) {
		return 0, nil, refuse(ua.StatusBadSecureChannelTokenUnknown, "security token %d is too old", id)
	}
	data := b[symmetricHead:]
	if ch.mode != ua.MessageSecurityModeNone {
		if data, err = unseal(t.alg, b, symmetricHead, t.alg.BlockSize(),
			ch.mode == ua.MessageSecurityModeSignAndEncrypt, false); err != nil {
			return 0, nil, err
		}
	}
	if len(data) < 8 {
		return 0, nil, refuse(ua.StatusBadSecurityChecksFailed, "a chunk without a sequence number")
	}
	if err := ch.inOrder(binary.LittleEndian.Uint32(data)); err != nil {
		return 0, nil, err
	}
	if i == len(ch.tokens)-1 {
		ch.tokens = ch.tokens[i:]
		ch.sending.Store(t)
	}
	return binary.LittleEndian.Uint32(data[4:]), data[8:], nil
}

// unseal decrypts and verifies a chunk whose first head bytes are clear, and returns what follows them without padding.
// block is the length of a block of ciphertext.
func unseal(alg *uapolicy.EncryptionAlgorithm, b []byte, head, block int, encrypted, extra bool) ([]byte, error) {
	failed := refuse(ua.StatusBadSecurityChecksFailed, "a chunk that can't be decrypted or verified")
	if encrypted {
		cipher := b[head:]
		if len(cipher) == 0 || len(cipher)%block != 0 {
			return nil, failed
		}
		plain, err := alg.Decrypt(cipher)
		if err != nil {
			return nil, failed
		}
		b = append(b[:head:head], plain...)
	}
	end := len(b) - alg.RemoteSignatureLength()
	if end < head {
		return nil, failed
	}
	if err := alg.VerifySignature(b[:end], b[end:]); err != nil {
		return nil, failed
	}
	if encrypted {
		pad, trailer := 0, 1
		if extra {
			trailer = 2
		}
		if end-trailer < head {
			return nil, failed
		}
		pad = int(b[end-1])
		if extra {
			pad = pad<<8 | int(b[end-2])
		}
		if end -= pad + trailer; end < head {
			return nil, failed
		}
	}
	return b[head:end], nil
}

// sealed returns a chunk with its size, signed and encrypted. b is header and clear body; block and plain are the
// lengths of a block as ciphertext and as plaintext.
func sealed(alg *uapolicy.EncryptionAlgorithm, b []byte, head int, encrypted, extra bool) ([]byte, error) {
	signature := 0
	if alg != nil {
		signature = alg.SignatureLength()
	}
	size := len(b) + signature
	if encrypted {
		plain := alg.PlaintextBlockSize()
		trailer := 1
		if extra {
			trailer = 2
		}
		pad := (plain - (len(b)-head+trailer+signature)%plain) % plain
		b = append(b, byte(pad))
		for range pad {
			b = append(b, byte(pad))
		}
		if extra {
			b = append(b, byte(pad>>8))
		}
		size = head + (len(b)-head+signature)/plain*alg.BlockSize()
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(size))
	if alg == nil {
		return b, nil
	}
	sign, err := alg.Signature(b)
	if err != nil {
		return nil, err
	}
	b = append(b, sign...)
	if !encrypted {
		return b, nil
	}
	cipher, err := alg.Encrypt(b[head:])
	if err != nil {
		return nil, err
	}
	return append(b[:head:head], cipher...), nil
}

func (ch *channel) next() uint32 {
	if ch.sent >= math.MaxUint32-1024 {
		ch.sent = 0
	}
	ch.sent++
	return ch.sent
}

// sealOpen makes the answer that opens the channel.
func (ch *channel) sealOpen(request uint32, body []byte, alg *uapolicy.EncryptionAlgorithm, cert []byte) ([]byte,
	error) {
	buf := ua.NewBuffer(nil)
	buf.Write([]byte("OPNF"))
	buf.WriteUint32(0)
	buf.WriteUint32(ch.id)
	buf.WriteString(ch.policy)
	if alg == nil {
		buf.WriteByteString(nil)
		buf.WriteByteString(nil)
	} else {
		thumbprint := sha1.Sum(ch.cert)
		buf.WriteByteString(cert)
		buf.WriteByteString(thumbprint[:])
	}
	head := buf.Len()
	buf.WriteUint32(ch.next())
	buf.WriteUint32(request)
	buf.Write(body)
	if buf.Error() != nil {
		return nil, buf.Error()
	}
	return sealed(alg, buf.Bytes(), head, alg != nil, alg != nil && alg.RemoteSignatureLength() > 256)
}

// seal makes the chunks of a message, of which the client takes chunks of at most size bytes, and most of them, 0 for
// any.
func (ch *channel) seal(request uint32, body []byte, size, most uint32) ([]byte, error) {
	t := ch.sending.Load()
	encrypted := ch.mode == ua.MessageSecurityModeSignAndEncrypt
	room := int(size) - symmetricHead
	var alg *uapolicy.EncryptionAlgorithm
	if ch.mode != ua.MessageSecurityModeNone {
		alg = t.alg
		if encrypted {
			room = room/alg.BlockSize()*alg.PlaintextBlockSize() - 1
		}
		room -= alg.SignatureLength()
	}
	room -= 8
	if n := (len(body) + room - 1) / room; most != 0 && n > int(most) {
		return nil, ua.StatusBadResponseTooLarge
	}
	var out []byte
	for {
		part := body[:min(room, len(body))]
		body = body[len(part):]
		b := make([]byte, symmetricHead+8, symmetricHead+8+len(part)+64)
		copy(b, "MSGF")
		if len(body) > 0 {
			b[3] = 'C'
		}
		binary.LittleEndian.PutUint32(b[8:], ch.id)
		binary.LittleEndian.PutUint32(b[12:], t.id)
		binary.LittleEndian.PutUint32(b[16:], ch.next())
		binary.LittleEndian.PutUint32(b[20:], request)
		b, err := sealed(alg, append(b, part...), symmetricHead, encrypted, false)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
		if len(body) == 0 {
			return out, nil
		}
	}
}

// randomID returns a number to begin ids at, so that those of a restarted server are others.
func randomID() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])&math.MaxInt32 + 1
}
